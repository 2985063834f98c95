"""Upkeep: leases of readers, expiry of snapshots, merging of files, and the vacuum."""
