"""Plan values, types and predicates: pure Python, no engine."""
