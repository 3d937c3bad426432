"""Memory and time per episode do not grow with the number of episodes."""

from __future__ import annotations

import tracemalloc

import numpy as np

from briskrl.core.types import StepBuffers
from briskrl.envs.wildfire.env import WildfireVecEnv


def play(env, out, episodes):
    rng, ended = np.random.default_rng(0), 0
    while ended < episodes:
        env.step_into((rng.random(out.mask.shape) * out.mask).argmax(axis=1), out)
        ended += env.drain_stats().count


def test_memory_is_flat_over_five_hundred_episodes():
    env = WildfireVecEnv(4, height=8, width=8, landscapes=3, n_weather=2, n_fires=4, obs_fires=4)
    out = StepBuffers.allocate(env.env_spec, 4)
    env.start(0, out)
    play(env, out, 50)
    tracemalloc.start()
    try:
        play(env, out, 50)
        before = tracemalloc.get_traced_memory()[0]
        play(env, out, 500)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 4096


def test_the_work_of_an_episode_does_not_depend_on_those_before():
    """The same seed gives the same episodes after five hundred others."""
    settings = {"height": 8, "width": 8, "landscapes": 2, "n_fires": 4, "obs_fires": 4}
    worn, fresh = (WildfireVecEnv(2, **settings) for _ in range(2))
    outs = [StepBuffers.allocate(env.env_spec, 2) for env in (worn, fresh)]
    worn.start(0, outs[0])
    play(worn, outs[0], 500)
    for env, out in zip((worn, fresh), outs, strict=True):
        env.start(9, out)
    rng = np.random.default_rng(1)
    for _ in range(40):
        actions = rng.integers(64, size=2)
        for env, out in zip((worn, fresh), outs, strict=True):
            env.step_into(actions, out)
        for name in ("obs", "reward", "terminated", "mask"):
            np.testing.assert_array_equal(getattr(outs[0], name), getattr(outs[1], name))
    np.testing.assert_array_equal(worn.get_state()["wildfire"], fresh.get_state()["wildfire"])
