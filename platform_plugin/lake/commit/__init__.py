"""The commit: operations that say what they rely on, and the one transaction in which they become visible together."""
