"""Policy learning on the fused engine."""
