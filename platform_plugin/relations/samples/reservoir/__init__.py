"""Reservoirs: samples of streams that are drawn as rows arrive, merged and kept up by maintenance runs."""
