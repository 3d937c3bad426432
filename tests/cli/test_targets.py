"""Players that need no run."""

from __future__ import annotations

import numpy as np

from briskrl.core.types import StepBuffers
from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.envs.wildfire.env import WildfireVecEnv
from briskrl.training.random_policy import RandomPolicy


def test_the_random_player_takes_distinct_legal_actions_of_a_set():
    config = WildfireConfig(
        height=5, width=6, landscapes=2, cells_per_step=4, n_weather=1, n_fires=2, obs_fires=4
    )
    env = WildfireVecEnv(6, config=config)
    out = StepBuffers.allocate(env.env_spec, 6)
    env.start(0, out)
    out.mask[0] = np.arange(30) < 3
    actions = RandomPolicy.of_env("wildfire", config, seed=1).act(out.obs, out.mask)
    assert actions.shape == (6, 4)
    assert sorted(actions[0]) == [-1, 0, 1, 2]
    for row, legal in zip(actions[1:], out.mask[1:], strict=True):
        assert len(set(row)) == 4
        assert legal[row].all()
    env.step_into(actions, out)
