"""Streams: relations whose oldest rows leave, and how rows are appended to them."""
