"""Engines: what runs a plan. The Arrow kernel runs in this process, Spark SQL on a server or a cluster."""
