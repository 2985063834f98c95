-- Sales by day: a partition for each day, built again when it is asked for, whether its orders are still in the stream or not.
CREATE TABLE daily_sales AS
SELECT
    CAST(ordered_at AS DATE) AS day,
    product_id,
    count(*) AS orders,
    sum(amount) AS revenue
FROM (
    SELECT product_id, amount, ordered_at FROM orders_history
    UNION ALL
    SELECT product_id, amount, ordered_at FROM orders
) AS all_orders
GROUP BY CAST(ordered_at AS DATE), product_id;
