"""Cursors: how far each consumer has come in each of its inputs, now and at older snapshots."""
