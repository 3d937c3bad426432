"""Updates of value networks that a thread does without the interpreter."""
