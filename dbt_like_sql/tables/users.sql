-- Who posts, where they are, and what they ask for a post.
CREATE TABLE users (
    id INT PRIMARY KEY,
    region STRING,
    rate DECIMAL(9, 2)
);
