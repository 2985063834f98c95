"""The commit: operations, the checks of what they rely on, and the transaction that makes them visible together."""
