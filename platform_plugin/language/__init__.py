"""The language: statements, their types and values, and what their queries touch."""
