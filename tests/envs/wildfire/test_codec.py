"""Observation codes, and the teacher."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.wildfire.env import WildfireVecEnv, topk_masked
from briskrl.envs.wildfire.landscape_pool import planned
from briskrl.envs.wildfire.planning.teacher import Demonstrator
from briskrl.envs.wildfire.simulate import Simulator

SMALL = {"height": 9, "width": 10, "landscapes": 4, "n_weather": 2, "n_fires": 2, "obs_fires": 8}


@pytest.mark.parametrize("channels", [(), ("budget", "fuel", "legal"), ("treated",)])
def test_codes_decode_to_the_observed_planes_and_masks(channels):
    env = WildfireVecEnv(5, n_settlements=1, protect_above=4, obs_channels=channels, **SMALL)
    rng = np.random.default_rng(0)
    out = StepBuffers.allocate(env.env_spec, 5)
    env.start(3, out)
    codes, seen, masks = [], [], []
    for _ in range(12):
        codes.append(out.code.copy())
        seen.append(out.obs.copy())
        masks.append(out.mask.copy())
        env.step_into(topk_masked(rng.random(out.mask.shape), out.mask, 1)[:, 0], out)
    order = rng.permutation(60)
    expected, legal = np.concatenate(seen)[order], np.concatenate(masks)[order]
    obs, mask = np.full_like(expected, np.nan), ~legal
    env.codec.decode_into(np.concatenate(codes)[order], obs, mask)
    np.testing.assert_array_equal(obs, expected)
    np.testing.assert_array_equal(mask, legal)


def test_codes_decode_after_their_environment_is_gone_and_in_any_batch():
    first, second = (WildfireVecEnv(count, **SMALL) for count in (1, 4))
    codec = first.codec
    first.close()
    del first
    out = StepBuffers.allocate(second.env_spec, 4)
    second.start(0, out)
    obs = np.zeros_like(out.obs)
    codec.decode_into(out.code, obs, None)
    np.testing.assert_array_equal(obs, out.obs)


def test_codes_are_small():
    env = WildfireVecEnv(1, **(SMALL | {"height": 40, "width": 40, "landscapes": 1}))
    assert env.codec.code_bytes == 8 * env.env_spec.code_words == 208


def test_codes_planes_and_masks_that_do_not_fit_are_refused():
    env = WildfireVecEnv(2, **SMALL)
    codec, spec = env.codec, env.env_spec
    codes, obs = np.zeros((2, spec.code_words), np.uint64), np.zeros((2, 15, 9, 10), np.float32)
    for wrong, *arrays in (
        ("codes must", codes[:, 1:], obs, None),
        ("obs must", codes, obs[:, :, :, :9], None),
        ("mask must", codes, obs, np.zeros((2, 80), np.bool_)),
    ):
        with pytest.raises(ValueError, match=wrong):
            codec.decode_into(*arrays)


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


def test_a_teacher_demonstrates_the_best_of_its_plans():
    settings = {**SMALL, "landscapes": 1, "n_fires": 6, "teacher_plans": 12, "teacher_fires": 4}
    burned = []
    for keep in (0, 2):
        env = WildfireVecEnv(24, teacher_keep=keep, autoreset_mode="Disabled", **settings)
        teacher = Demonstrator(env, "dpv")
        env.reset(seed=1)
        for _ in range(env.env_spec.max_steps):
            env.step(teacher.actions())
        plans = np.unique(env.treated(), axis=0)
        assert len(plans) <= (keep or 12)
        scene = env.pool.members[0].scene
        fires = scene.draw_fires(np.random.default_rng(0), 400)
        burned.append(np.mean([Simulator(scene).burned_frac(fires, plan) for plan in plans]))
    assert burned[1] < burned[0]
