"""One run in several processes, which collect apart and learn together."""
