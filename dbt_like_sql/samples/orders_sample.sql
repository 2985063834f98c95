-- A thousand orders, each as likely as any other, of all that were ever made.
CREATE SAMPLE orders_sample ON orders SIZE 1000 WITH (seed = 7);
