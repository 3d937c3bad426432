"""A trained defender behind the interface of the original challenge, on recorded episodes."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from briskrl.core.types import StepBuffers
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.replay import Choices, replay_step, set_red
from briskrl.export.exporter import export_policy
from briskrl.export.load import load_policy
from briskrl.training.loop import train
from tests.training.runs import small_config

ROOT = Path(__file__).parents[2]
SETTINGS = {
    "actions": "reduced",
    "mask": "useful",
    "scan_memory": True,
    "decoy_memory": "full",
    "event_memory": True,
    "restore_memory": True,
    "clock": True,
    "frames": 2,
}
RED = ("red_action", "red_target", "red_exploit", "detected", "esc_pick", "green_target")


@pytest.fixture(scope="module")
def defender(tmp_path_factory):
    """A run and its bundle."""
    folder = tmp_path_factory.mktemp("defender")
    train(small_config(folder / "run", "ppo", env="cage2", env_config=SETTINGS, steps=6000))
    done = export_policy(
        folder / "run", to="bundle", output=folder / "bundle", observations=500, episodes=0
    )
    assert done.max_difference < 1e-4
    return folder / "run", folder / "bundle"


def make_agent(bundle: Path):
    module = runpy.run_path(str(ROOT / "examples" / "cage2_challenge_agent.py"))
    return module["TrainedDefender"](str(bundle))


def test_the_agent_plays_like_the_policy_in_its_environment(defender):
    run, bundle = defender
    agent = make_agent(bundle)
    policy = load_policy(run).policy
    env = Cage2VecEnv(1, **SETTINGS, length=60, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, 1)
    decoys = 0
    for seed in range(4):
        env.start(seed, out)
        agent.set_initial_values(None)
        for _ in range(60):
            action = policy.act(out.obs, out.mask)
            taken = agent.get_action(out.obs[0, :52].astype(int))
            name = env.action_names[action[0]]
            if not name.startswith("Decoy"):
                # The environment's name of an action of the full set.
                assert FULL_NAMES[taken] == name
            else:
                decoys += 1
                host = name.partition(" ")[2]
                assert FULL_NAMES[taken].startswith("Decoy")
                assert FULL_NAMES[taken].endswith(host)
            env.step_into(action, out)
        agent.end_episode()
    assert decoys > 5


FULL_NAMES = Cage2VecEnv(1).action_names


def test_recorded_episodes_of_the_original_are_answered_as_in_the_environment(defender):
    """The recorded actions are taken; before each, the agent is asked what it would do."""
    run, bundle = defender
    recording = dict(np.load(ROOT / "tests/envs/cage2/golden/traces.npz"))
    chosen = np.flatnonzero(recording["length"] >= 30)[::8]
    recording = {name: array[chosen] for name, array in recording.items()}
    # The environment shows the recorded episodes with the memory that the policy was trained with.
    settings = {**SETTINGS, "actions": "full", "mask": "none"}
    env = Cage2VecEnv(len(chosen), **settings, length=100, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, len(chosen))
    env.start(0, out)
    set_red(env, recording["red_agent"])
    policy = load_policy(run, memory=False)
    agents = load_policy(bundle)
    reduced = Cage2VecEnv(len(chosen), **SETTINGS, length=100, autoreset_mode="Disabled")
    probe = StepBuffers.allocate(reduced.env_spec, len(chosen))
    reduced.start(0, probe)
    different = set()
    for step in range(30):
        answers = agents.act(recording["obs"][:, step])
        assert ((answers >= 0) & (answers < 145)).all()
        expected = policy.act(out.obs, agents.memory.mask())
        names = [reduced.action_names[action] for action in expected]
        for name, answer in zip(names, answers, strict=True):
            kind, _, host = name.partition(" ")
            full = FULL_NAMES[answer]
            assert full == name or (kind == "Decoy" and full.endswith(host)) or full == "Monitor"
        different |= set(answers.tolist())
        actions = recording["blue_action"][:, step].astype(np.int64)
        agents.replace_action(actions)
        choices = Choices(**{name: recording[name][:, step] for name in RED})
        replay_step(env, actions, choices, out)
    assert len(different) > 3


def test_the_example_shows_actions(defender, capsys):
    module = runpy.run_path(str(ROOT / "examples" / "cage2_challenge_agent.py"))
    actions = module["main"](str(defender[1]))
    assert capsys.readouterr().out.strip() == str(actions)
    assert Cage2Config().actions == "full"
