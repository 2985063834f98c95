"""Maintenance of views: runs that consume ranges of streams, move cursors, and compact states."""
