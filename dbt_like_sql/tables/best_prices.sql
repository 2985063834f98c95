-- The cheapest audience in each region when this was last built.
CREATE TABLE best_prices AS
SELECT
    region,
    min(price) AS price,
    count(*) AS users
FROM price_per_like
GROUP BY region;
