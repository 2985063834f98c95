"""Sessions: one client's hold on a Spark server, its jobs, their rows, their cost and their failures."""
