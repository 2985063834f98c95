-- What is sold.
CREATE TABLE products (
    id INT PRIMARY KEY,
    name STRING,
    category STRING,
    price DECIMAL(9, 2)
);
