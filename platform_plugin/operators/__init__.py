"""Operators: what maintained relations are made of. Each has a pure plan, a state, and a step that is the same in runs and in reads."""
