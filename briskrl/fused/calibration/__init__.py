"""What this machine can do: rates of matrix products and memory, overhead of calls."""
