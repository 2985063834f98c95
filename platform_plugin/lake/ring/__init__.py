"""Streams in the lake: segments, retention and eviction, consumers with their cursors, and histories."""
