"""The `brisk` command. Modules here may print; nothing else in the package does."""
