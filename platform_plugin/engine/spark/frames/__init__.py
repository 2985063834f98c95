"""Frames: relations of the lake as DataFrames, and DataFrames as files of the lake."""
