-- Orders as the checkout exports them, a CSV file every few seconds. The newest 20 000 stay; older ones are in orders_history.
CREATE STREAM orders (
    id BIGINT NOT NULL,
    customer_id INT NOT NULL COMMENT 'customers.id',
    product_id INT NOT NULL COMMENT 'products.id',
    quantity INT,
    amount DECIMAL(9, 2) COMMENT 'What was paid, in euros.',
    ordered_at TIMESTAMP
)
FROM FILES '.platform/inbox/orders/*.csv' (HEADER)
WITH (retention_rows = 20000);
