"""Workflows: orders in which kinds of incident are handled, and the search for the best one."""
