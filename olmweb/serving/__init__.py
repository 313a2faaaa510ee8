"""Serving a whole installation: the embedded server, health probes and metrics."""
