"""Compiled acting and learning of Q-networks."""
