"""Updates of value networks, one at a time."""
