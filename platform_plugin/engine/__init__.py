"""Engines that run plans: the Arrow kernel in this process, and Spark SQL on a server or a cluster."""
