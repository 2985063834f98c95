-- What is being posted. The newest million posts stay.
CREATE STREAM posts (
    uid INT COMMENT 'Who posted: users.id.',
    username STRING,
    score INT COMMENT 'Likes within the first hour.',
    content STRING
)
WITH (retention_rows = 1000000);
