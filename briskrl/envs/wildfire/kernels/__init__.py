"""Compiled wildfire."""
