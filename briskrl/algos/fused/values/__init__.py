"""Value learning on the fused engine."""
