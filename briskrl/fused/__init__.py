"""The fused CPU engine: small networks computed by a handful of compiled pieces."""
