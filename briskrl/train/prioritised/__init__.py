"""Updates from a prioritised memory in one compiled call."""
