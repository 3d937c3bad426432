"""Compiled queues and waiting."""
