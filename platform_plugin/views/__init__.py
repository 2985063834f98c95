"""Continuous views: how a query over streams is split, shared and explained."""
