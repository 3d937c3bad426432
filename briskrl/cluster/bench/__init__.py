"""What `brisk bench cluster` measures."""
