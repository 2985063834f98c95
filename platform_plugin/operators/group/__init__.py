"""Grouping as an operator: a query is split into static parts, what each range of a stream adds to a state, and a query over the states."""
