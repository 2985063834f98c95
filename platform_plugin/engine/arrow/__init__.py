"""The Arrow kernel: plans, expressions and aggregates over Arrow with the answers that Spark gives, or a refusal."""
