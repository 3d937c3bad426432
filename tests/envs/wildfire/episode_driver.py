"""Small environments for the tests of episodes, and random play."""

from __future__ import annotations

import numpy as np

from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.simulate import Simulator

SMALL = {"height": 9, "width": 10, "landscapes": 3, "n_weather": 3, "n_fires": 6, "obs_fires": 8}


def make(num_envs=2, **settings):
    hold = settings.pop("autoreset_mode", "Disabled")
    return WildfireVecEnv(num_envs, autoreset_mode=hold, **(SMALL | settings))


def legal_actions(env, rng):
    """A random legal cell per env, or several of them."""
    count = env.config.cells_per_step
    cells = topk_masked(rng.random(env.action_mask.shape), env.action_masks(), count)
    return cells[:, 0] if count == 1 else np.where(cells < 0, 0, cells)


def full_loss(env, index):
    """Burned fraction of an episode's fires, simulated from scratch."""
    state = env.peek()
    scene = env.pool.members[state["landscape"][index]].scene
    losses = Simulator(scene).losses(env.fires(index), state["treated"][index])
    return float(np.add.accumulate(losses)[-1]) / (len(losses) * scene.total_value)


def play_out(env, rng, each_step=lambda *_: None):
    env.reset(seed=int(rng.integers(2**31)))
    rewards = []
    while True:
        _, reward, terminated, truncated, infos = env.step(legal_actions(env, rng))
        assert not truncated.any()
        rewards.append(reward)
        each_step(reward, infos)
        if terminated.all():
            return np.array(rewards), infos
