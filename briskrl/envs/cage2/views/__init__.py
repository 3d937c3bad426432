"""What blue sees, compiled: observations and masks."""
