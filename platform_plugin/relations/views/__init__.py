"""Continuous views: how they are declared, kept in the lake, rebuilt and explained."""
