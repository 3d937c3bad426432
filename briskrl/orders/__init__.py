"""Workflows as orders of categories: ids, text, spaces with constraints, and encodings."""
