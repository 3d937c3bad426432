"""PQN: Q-learning from parallel environments, without a replay buffer or a target network."""
