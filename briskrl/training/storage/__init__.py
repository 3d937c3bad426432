"""Run folders, checkpoints, metrics and policies on disk."""
