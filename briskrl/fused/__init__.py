"""The fused CPU engine: dense networks computed by compiled kernels."""
