"""Algorithms: networks, optimizer and loss; no environments, files or processes."""
