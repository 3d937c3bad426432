"""Observations kept in a few bytes, and demonstrations of baselines."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.wildfire.codec import PlaneCodec
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.planning.demonstrate import Demonstrator
from briskrl.envs.wildfire.pool import planned

SMALL = {"height": 9, "width": 10, "landscapes": 4, "n_weather": 2, "n_fires": 2, "obs_fires": 8}


@pytest.mark.parametrize("channels", [(), ("budget", "fuel", "legal"), ("treated",)])
def test_rows_stand_for_the_planes_they_were_written_from(channels):
    env = WildfireVecEnv(5, n_settlements=1, protect_above=4, obs_channels=channels, **SMALL)
    codec, rng = PlaneCodec(env), np.random.default_rng(0)
    out = StepBuffers.allocate(env.env_spec, 5)
    env.start(3, out)
    kept, seen = [], []
    for _ in range(12):
        rows = codec.new_rows(5)
        codec.encode_into(rows)
        kept.append(rows)
        seen.append(out.obs.copy())
        env.step_into(topk_masked(rng.random(out.mask.shape), out.mask, 1)[:, 0], out)
    order = rng.permutation(60)
    rows, expected = np.concatenate(kept)[order], np.concatenate(seen)[order]
    found = np.full_like(expected, np.nan)
    codec.decode_into(rows, found)
    np.testing.assert_array_equal(found, expected)


def test_rows_are_small():
    env = WildfireVecEnv(1, **(SMALL | {"height": 40, "width": 40, "landscapes": 1}))
    assert PlaneCodec(env).row_bytes == 208


def test_rows_and_planes_that_do_not_fit_are_refused():
    env = WildfireVecEnv(2, **SMALL)
    codec = PlaneCodec(env)
    with pytest.raises(ValueError, match="rows must be"):
        codec.encode_into(np.zeros((3, codec.row_bytes), np.uint8))
    with pytest.raises(ValueError, match="obs must be"):
        codec.decode_into(codec.new_rows(2), np.zeros((2, 15, 9, 9), np.float32))


@pytest.mark.parametrize("count", [1, 3])
def test_demonstrations_follow_the_plan(count):
    env = WildfireVecEnv(6, cells_per_step=count, plan_fires=16, autoreset_mode="Disabled", **SMALL)
    teacher = Demonstrator(env, "dpv-iterative")
    env.reset(seed=0)
    ended = np.zeros(6, np.bool_)
    while not ended.all():
        _, _, ended, _, _ = env.step(np.maximum(teacher.actions(), 0))
    for i, land in enumerate(env.peek()["landscape"]):
        plan = planned(
            type(env.config)(**{**SMALL, "plan": "dpv-iterative", "plan_fires": 16}),
            env.pool.members[land],
        )
        assert set(np.flatnonzero(env.treated()[i])) == set(plan.tolist())
