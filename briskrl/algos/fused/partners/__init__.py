"""Updates of value networks by two threads."""
