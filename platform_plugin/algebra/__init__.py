"""The algebra of queries: plans, expressions and types as Python values that no engine is needed for."""
