-- What each product has sold since the shop opened, as of now.
CREATE VIEW sales_by_product WITH (start = 'earliest', target_lag = '10 seconds') AS
SELECT
    product_id,
    count(*) AS orders,
    sum(quantity) AS pieces,
    sum(amount) AS revenue
FROM orders
GROUP BY product_id;
