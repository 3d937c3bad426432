"""The player process: loads a policy, plays its environment, and sends states as JSON."""
