"""Compiled acting and learning of PPO."""
