"""Algorithms: networks, optimiser and loss; no environments, files or processes."""
