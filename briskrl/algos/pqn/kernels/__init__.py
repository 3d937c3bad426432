"""Kernels of PQN."""
