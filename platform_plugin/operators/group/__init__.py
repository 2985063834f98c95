"""The grouping operator: a view's query is split into static parts, stream parts with their states, and an upper query."""
