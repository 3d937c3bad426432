"""Every recorded episode of the original simulator, replayed without a single difference."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.replay import Choices, replay_step, set_red

GOLDEN = Path(__file__).parent / "golden"
FILES = {"traces": "current", "edge": "current", "traces_competition": "competition"}
STATE = (
    "access",
    "sess_user_removable",
    "sess_user_sticky",
    "sess_root",
    "decoys",
    "files",
    "ot_running",
    "ot_active",
    "ot_armed",
    "ot_known",
    "red_ports",
    "known_ip",
    "known_host",
    "known_subnet",
    "bline_stage",
    "meander_scanned",
    "meander_exploited",
    "meander_escalated",
    "blue_action",
    "blue_success",
    "red_action",
    "red_target",
    "red_success",
    "red_exploit",
    "detected",
    "esc_pick",
    "esc_options",
    "green_target",
)
"""Recorded arrays, and the fields of the true state that must equal them."""


@pytest.mark.parametrize(("name", "edition"), FILES.items())
def test_a_recorded_episode_replays_without_a_difference(name: str, edition: str) -> None:
    gold = dict(np.load(GOLDEN / f"{name}.npz"))
    num = len(gold["length"])
    env = Cage2VecEnv(num, edition=edition, length=100, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, num)
    env.start(0, out)
    set_red(env, gold["red_agent"])
    np.testing.assert_array_equal(out.obs, gold["obs"][:, 0])
    steps = 0
    for t in range(100):
        live = gold["length"] > t
        choices = Choices(**{field.name: gold[field.name][:, t] for field in fields(Choices)})
        allowed = replay_step(env, gold["blue_action"][:, t], choices, out)
        truth = env.truth()
        for array in STATE:
            got, wanted = getattr(truth, array)[live], gold[array][live, t]
            np.testing.assert_array_equal(got, wanted, err_msg=f"{array} after step {t}")
        np.testing.assert_array_equal(out.obs[live], gold["obs"][live, t + 1])
        np.testing.assert_allclose(out.reward[live], gold["reward"][live, t], atol=1e-4)
        check_candidates(
            allowed, {key: gold[key][:, t] for key in gold if gold[key].ndim > 1}, live
        )
        steps += live.sum()
    assert steps == gold["length"].sum()


def check_candidates(allowed, row, live) -> None:
    """The recorded choice of red is one that the model of its agent allows."""
    np.testing.assert_array_equal(allowed.action[live], row["red_action"][live])
    acts = live & (row["red_action"] > 0)
    target = np.where(acts, row["red_target"], 0).astype(np.int64)
    assert (allowed.targets[acts] >> target[acts] & 1).all()
    assert (allowed.targets[live & ~acts] == 0).all()
    exploits = live & (row["red_action"] == 3)
    tried = exploits & (row["red_exploit"] >= 0)
    chosen = np.where(tried, row["red_exploit"], 0).astype(np.int64)
    assert (allowed.exploits[tried] >> chosen[tried] & 1).all()
    assert (allowed.exploits[exploits & ~tried] == 0).all()
