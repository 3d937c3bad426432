"""Compiled code that several algorithms share."""
