"""Compiled Snake."""
