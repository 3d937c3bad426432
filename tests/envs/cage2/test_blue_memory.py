"""Blue's memory outside the simulator gives the observations and masks of the environment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from briskrl.core.config import to_dict
from briskrl.core.errors import InvalidStateError
from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.blue_memory import BlueMemory, blue_memory
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.replay import Choices, replay_step, set_red

GOLDEN = Path(__file__).parent / "golden"
EVERYTHING = {
    "scan_memory": True,
    "event_memory": True,
    "restore_memory": True,
    "clock": True,
    "frames": 3,
}
VARIANTS = [
    {**EVERYTHING, "decoy_memory": "full", "mask": "useful"},
    {**EVERYTHING, "decoy_memory": "count", "actions": "reduced", "mask": "useful"},
    {"decoy_memory": "full", "view": "wrapper2", "green": True, "mask": "legal"},
    {"scan_memory": True, "actions": "reduced", "mask": "legal", "green": True},
]


@pytest.mark.parametrize("settings", VARIANTS)
def test_observations_and_masks_equal_those_of_the_environment(settings):
    config = Cage2Config(**settings, length=40)
    env = Cage2VecEnv(32, **settings, length=40, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, 32)
    memory = BlueMemory(to_dict(config))
    rng = np.random.default_rng(0)
    for episode in range(2):
        env.start(episode, out)
        memory.restart(32)
        for step in range(40):
            np.testing.assert_array_equal(memory.see(out.obs[:, :52]), out.obs, f"step {step}")
            np.testing.assert_array_equal(memory.mask(), out.mask)
            # Half of the actions set up decoys, so that many of them fail.
            actions = rng.integers(0, env.layout.num_actions, 32)
            full = memory.act(actions)
            assert ((full >= 0) & (full < 145)).all()
            env.step_into(actions, out)


@pytest.mark.parametrize(
    ("name", "edition"), [("traces", "current"), ("traces_competition", "competition")]
)
def test_recorded_episodes_of_the_original_give_the_same_memory(name, edition):
    recording = dict(np.load(GOLDEN / f"{name}.npz"))
    settings = {**EVERYTHING, "decoy_memory": "full", "edition": edition}
    count, slots = recording["blue_action"].shape
    env = Cage2VecEnv(count, **settings, length=slots, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, count)
    env.start(0, out)
    set_red(env, recording["red_agent"])
    memory = BlueMemory(to_dict(Cage2Config(**settings, length=slots)))
    memory.restart(count)
    inputs = ("red_action", "red_target", "red_exploit", "detected", "esc_pick", "green_target")
    for step in range(slots):
        live = recording["length"] > step
        seen = memory.see(recording["obs"][:, step].astype(np.float32))
        np.testing.assert_array_equal(seen[live], out.obs[live], f"step {step}")
        actions = recording["blue_action"][:, step].astype(np.int64)
        memory.replace(np.maximum(actions, 0))
        replay_step(env, actions, Choices(**{key: recording[key][:, step] for key in inputs}), out)


def test_raw_observations_need_no_memory():
    assert blue_memory(to_dict(Cage2Config())) is None
    assert blue_memory(to_dict(Cage2Config(actions="reduced"))) is not None


def test_impossible_actions_are_refused():
    memory = BlueMemory(to_dict(Cage2Config(clock=True)))
    memory.restart(1)
    with pytest.raises(InvalidStateError, match="0 to 144"):
        memory.replace(np.array([145]))
