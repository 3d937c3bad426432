"""Compiled tracking of workflows."""
