-- What is sold. Rows stay until somebody changes or deletes them.
CREATE TABLE products (
    id INT PRIMARY KEY,
    name STRING,
    price DECIMAL(9, 2)
);
