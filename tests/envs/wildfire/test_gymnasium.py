"""The fuel-break environments through Gymnasium."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

IDS = {"FuelBreak20-v0": 20, "FuelBreak40-v0": 80, "FuelBreakLandfire50-v0": 125}
QUICK = {"landscapes": 1, "n_weather": 1, "n_fires": 2, "obs_fires": 2}


@pytest.mark.parametrize(("name", "budget"), IDS.items())
def test_ids_have_their_size_and_budget(name, budget):
    env = gymnasium.make(name, **QUICK)
    obs, info = env.reset(seed=1)
    side = {20: 20, 80: 40, 125: 50}[budget]
    assert obs.shape == (15, side, side)
    assert info["action_mask"].shape == (side * side,)
    steps, ended = 0, False
    while not ended:
        cell = np.flatnonzero(info["action_mask"])[0]
        _, _, ended, truncated, info = env.step(cell)
        assert not truncated
        steps += 1
    assert steps == budget == info["n_treated"]
    assert {"burned_frac", "burned_frac_untreated", "landscape_id", "seed"} <= set(info)
    env.close()


@pytest.mark.parametrize("count", [1, 3])
def test_gymnasium_checker_accepts_it(count):
    env = gymnasium.make("FuelBreak20-v0", cells_per_step=count, disable_env_checker=True, **QUICK)
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("mode", ["SameStep", "NextStep", "Disabled"])
def test_batches_come_in_every_autoreset_mode(mode):
    envs = gymnasium.make_vec("FuelBreak20-v0", num_envs=3, autoreset_mode=mode, **QUICK)
    _, infos = envs.reset(seed=0)
    assert infos["action_mask"].shape == (3, 400)
    for _ in range(20):
        cells = np.array([np.flatnonzero(row)[0] for row in infos["action_mask"]])
        _, _, terminated, _, infos = envs.step(cells)
    assert terminated.all()
    assert ("final_obs" in infos) == (mode == "SameStep")
    assert (infos["n_treated"] == 20).all()
    envs.close()


def test_the_mask_buffer_is_refreshed_in_place():
    envs = gymnasium.make_vec("FuelBreak20-v0", num_envs=2, copy=False, **QUICK)
    _, infos = envs.reset(seed=0)
    buffer = infos["action_mask"]
    cell = int(np.flatnonzero(buffer.all(axis=0))[0])
    _, _, _, _, infos = envs.step(np.array([cell, cell]))
    assert infos["action_mask"] is buffer
    assert not buffer[:, cell].any()
