"""Numba, wrapped: decorators with an on-disk cache, atomics, packed arguments, math."""
