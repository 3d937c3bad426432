"""Gymnasium's CartPoleEnv."""
