-- The ten products that have earned most when this was last built.
CREATE TABLE best_sellers AS
SELECT
    products.name,
    products.category,
    sales.revenue
FROM sales_by_product AS sales
JOIN products ON products.id = sales.product_id
ORDER BY sales.revenue DESC
LIMIT 10;
