"""Studies and comparisons that need a checkout of the repository; not part of the wheel."""
