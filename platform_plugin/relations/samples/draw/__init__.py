"""Draws: samples of tables, views and other samples, drawn from the rows of one snapshot."""
