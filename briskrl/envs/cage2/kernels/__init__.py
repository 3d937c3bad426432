"""Compiled CAGE-2."""
