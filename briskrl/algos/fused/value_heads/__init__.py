"""What the outputs of a value network mean, for the fused engine."""
