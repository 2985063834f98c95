"""Samples: uniform, of a fixed size, merged from reservoirs, and honest about their error."""
