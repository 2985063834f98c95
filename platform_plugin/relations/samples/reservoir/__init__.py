"""Reservoirs: samples of streams, drawn while rows arrive, merged and stored by maintenance runs."""
