"""Compiled sampling from distributions."""
