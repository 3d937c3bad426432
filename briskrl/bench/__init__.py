"""Benchmarks behind `brisk bench`: paired measurements, one JSON object each."""
