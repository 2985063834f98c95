-- What each customer has spent, as of now.
CREATE VIEW customer_value WITH (start = 'earliest', target_lag = '10 seconds') AS
SELECT
    customer_id,
    count(*) AS orders,
    sum(amount) AS spent,
    max(ordered_at) AS last_order_at
FROM orders
GROUP BY customer_id;
