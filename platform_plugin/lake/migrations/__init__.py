"""Migrations of the platform's own tables: numbered steps that run in the transaction of the first write to an older lake."""
