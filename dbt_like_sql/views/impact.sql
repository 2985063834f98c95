-- How far the posts of each user reach, as of now.
CREATE VIEW impact WITH (start = 'earliest', target_lag = '20 seconds') AS
SELECT
    uid,
    count(*) AS posts,
    avg(score) AS score
FROM posts
GROUP BY uid;
