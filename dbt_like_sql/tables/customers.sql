-- Who buys. Loaded from the customer system, kept for good.
CREATE TABLE customers (
    id INT PRIMARY KEY,
    name STRING,
    country STRING,
    email STRING
);
