"""Kernels of the compiled Gymnasium environments."""
