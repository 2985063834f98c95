-- Which products are looked at, and by about how many visitors.
CREATE VIEW interest WITH (start = 'earliest', target_lag = '30 seconds') AS
SELECT
    product_id,
    count(*) AS clicks,
    approx_count_distinct(visitor) AS visitors
FROM clicks
GROUP BY product_id;
