"""Threads that run compiled code together."""
