-- What one like costs with each user who has an audience.
CREATE VIEW price_per_like AS
SELECT
    users.id,
    users.region,
    users.rate / impact.score AS price
FROM impact
JOIN users ON users.id = impact.uid
WHERE impact.score > 0;
