"""Benchmarks that run on a user's machine; one module per `brisk bench` command."""
