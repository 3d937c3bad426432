"""The algorithms' losses and updates for the fused engine."""
