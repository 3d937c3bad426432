"""Fires of one landscape in detail: losses, arrivals, paths."""
