"""Choices among fixed sets of actions: chances, draws, and the loss's slopes."""
