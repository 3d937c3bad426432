"""Ordered visit: a grid with regions to be visited in a hidden order."""
