"""Comparisons with other libraries (`brisk bench peers`)."""
