"""The agent plays: episodes of a policy, step by step."""
