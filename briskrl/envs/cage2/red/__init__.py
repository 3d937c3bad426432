"""The compiled red agents."""
