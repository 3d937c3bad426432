"""Numba decorators with an on-disk cache, and what kernels need that Numba does not offer."""
