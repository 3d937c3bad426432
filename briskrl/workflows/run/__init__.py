"""Training under workflows: one order, the search for the best one, or one policy for all."""
