"""Estimates: answers computed from sampled rows, with bounds."""
