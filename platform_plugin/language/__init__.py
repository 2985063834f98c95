"""The SQL language: statements as values, the readers that parse them, and the analysis of their queries."""
