"""The slow training loop that briskrl replaced, and `brisk bench legacy`, which measures it."""
