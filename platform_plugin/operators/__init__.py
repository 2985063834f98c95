"""Operators of maintained relations: each has a pure plan, a state, and a step that runs and reads share."""
