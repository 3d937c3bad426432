"""Compiled work that a thread does without the interpreter."""
