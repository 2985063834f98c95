"""The grouping operator: a view's query as static parts, stream parts with their states, and an upper query."""
