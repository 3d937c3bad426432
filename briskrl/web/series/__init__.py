"""Curves from logs of any length: read once, kept as bins, and read on as the logs grow."""
