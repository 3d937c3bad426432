"""The light foundation: types, configuration, registries, clocks. No torch, no numba."""
