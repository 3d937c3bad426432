"""Networks: bodies, heads and the one place that puts them together."""
