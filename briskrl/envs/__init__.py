"""Environments: the contract, the native families, and Gymnasium's door to them."""
