"""Estimates: answers from sampled rows, with bounds."""
