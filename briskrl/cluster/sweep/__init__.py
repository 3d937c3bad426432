"""Sweeps: many runs of the same training with other settings or seeds, in one folder."""
