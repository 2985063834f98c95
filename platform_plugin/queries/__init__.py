"""Queries: reading any mix of relations at one snapshot, and what comes back."""
