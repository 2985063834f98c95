-- Orders, one CSV file after the other, from the folder incoming/. The newest million stay.
CREATE STREAM orders (
    id BIGINT NOT NULL,
    product_id INT NOT NULL COMMENT 'products.id',
    quantity INT,
    amount DECIMAL(9, 2),
    ordered_at TIMESTAMP
)
FROM FILES 'incoming/*.csv' (HEADER)
WITH (retention_rows = 1000000);
