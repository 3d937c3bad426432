"""Matrices turned within registers."""
