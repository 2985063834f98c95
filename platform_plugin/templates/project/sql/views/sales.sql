-- What each product has sold, current at every read.
CREATE VIEW sales WITH (start = 'earliest', target_lag = '10 seconds') AS
SELECT
    products.name AS product,
    sold.orders,
    sold.pieces,
    sold.revenue
FROM (
    SELECT
        product_id,
        count(*) AS orders,
        sum(quantity) AS pieces,
        sum(amount) AS revenue
    FROM orders
    GROUP BY product_id
) AS sold
JOIN products ON products.id = sold.product_id;
