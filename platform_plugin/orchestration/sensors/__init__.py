"""Sensors: when a run pays, decided from the catalogue alone."""
