"""The DQN family: DQN, double, dueling, prioritized, n-step, noisy, C51, Rainbow."""
