-- Loads the products; it may be run again.
DELETE FROM products;
COPY products FROM 'data/products.csv' (HEADER);
