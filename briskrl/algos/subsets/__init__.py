"""Several actions at once, chosen from one set without repeating any."""
