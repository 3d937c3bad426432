"""Many CartPoles as one array; a game that is cut after 500 steps is truncated."""

import gymnasium as gym


def make_cartpoles(num_envs):
    return gym.make_vec("CartPole-v1", num_envs, vectorization_mode="vector_entry_point")
