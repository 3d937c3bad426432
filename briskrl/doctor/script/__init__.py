"""Examine any training script, unmodified: run it with the watcher, interpret what it records."""
