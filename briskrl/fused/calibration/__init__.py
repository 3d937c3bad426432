"""What this machine can do: rates of products and memory, costs of calls."""
