-- A thousand posts, each as likely as any other, of all that were ever made.
CREATE SAMPLE posts_sample ON posts SIZE 1000 WITH (seed = 7);
