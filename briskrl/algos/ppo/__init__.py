"""PPO, and A2C and REINFORCE as presets of it."""
