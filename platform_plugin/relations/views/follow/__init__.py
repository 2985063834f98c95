"""Maintenance of views: runs that consume ranges of streams, advance the cursors and compact the state."""
