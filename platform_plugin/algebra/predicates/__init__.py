"""Predicates in one form: what a condition lets through, as intervals and sets of values for each column, NULL included."""
