"""Streams: relations whose oldest rows leave, and how rows come in and are read while they come."""
