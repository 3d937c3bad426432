"""What `brisk bench workflow` measures."""
