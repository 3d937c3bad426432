"""The compiled network: its memory, and what blue, green and red actions do to it."""
