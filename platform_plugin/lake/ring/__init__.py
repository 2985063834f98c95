"""Retention: segments of a stream, how the oldest leave, and the history that receives them."""
