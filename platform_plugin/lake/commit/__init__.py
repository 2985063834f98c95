"""The commit: its operations, the checks of what they rely on, and the one transaction that makes them visible together."""
