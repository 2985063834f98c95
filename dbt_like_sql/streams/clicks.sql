-- Pages that visitors look at, pushed by the web shop. Only the last hour stays.
CREATE STREAM clicks (
    visitor STRING,
    product_id INT COMMENT 'products.id',
    clicked_at TIMESTAMP
)
WITH (retention = '1 hour');
