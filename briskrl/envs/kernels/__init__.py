"""Compiled code that all native environments share."""
