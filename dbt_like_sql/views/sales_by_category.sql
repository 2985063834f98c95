-- The same by category: a view on a view, at one snapshot with it.
CREATE VIEW sales_by_category AS
SELECT
    products.category,
    sum(sales.orders) AS orders,
    sum(sales.revenue) AS revenue
FROM sales_by_product AS sales
JOIN products ON products.id = sales.product_id
GROUP BY products.category;
