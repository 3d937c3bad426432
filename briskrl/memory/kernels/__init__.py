"""Compiled replay and rollout operations."""
