-- What one like costs with each user who has an audience.
CREATE VIEW price_per_like AS
SELECT
    users.id,
    users.region,
    users.rate / impact.score AS price
FROM users
JOIN impact ON impact.uid = users.id
WHERE impact.score > 0;
