"""Products of matrices, whatever networks make of them."""
