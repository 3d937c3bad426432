"""Experiments: change one thing about a training loop and measure the gain."""
