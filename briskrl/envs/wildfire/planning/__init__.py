"""Where to put fuel breaks without learning: the baselines that agents are measured against."""
