"""Compiled ordered visit."""
