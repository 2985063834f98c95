"""Streams: relations that rows are appended to and that evict their oldest rows."""
