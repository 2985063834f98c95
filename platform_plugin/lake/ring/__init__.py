"""The ring: segments of a stream, how the oldest leave, and the history that takes them up."""
