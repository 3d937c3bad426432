"""Episodes in memory: their layout, fires and treatments."""
