"""Networks for the torch engine: bodies, heads, flat parameters and a safe optimizer."""
