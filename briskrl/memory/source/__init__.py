"""A prioritised memory for kernels that draw and feed back between updates."""
