-- Fifty orders, each as likely as any other, of all that ever came.
CREATE SAMPLE orders_sample ON orders SIZE 50 WITH (seed = 7);
