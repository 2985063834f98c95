"""Statements: each as a value, the reader that makes it from text, and the text that it is written back as."""
