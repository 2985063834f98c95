"""Sensors: when a run is worth its cost, decided from the catalogue alone."""
