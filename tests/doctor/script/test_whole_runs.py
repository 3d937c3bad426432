"""Runs of a whole script with other arguments, and the same work in briskrl."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from briskrl.core.errors import ConfigError
from briskrl.doctor.script.whole_runs import parse_trials
from tests.doctor.script.examine_command import examine
from tests.doctor.script.watched_scripts import write


def test_flags_and_variables_with_values_are_trials() -> None:
    flags = parse_trials("--num-envs 32,64")
    assert [trial.flags for trial in flags] == [("--num-envs", "32"), ("--num-envs", "64")]
    variables = parse_trials("OMP_NUM_THREADS=1,2")
    assert [trial.variables for trial in variables] == [
        {"OMP_NUM_THREADS": "1"},
        {"OMP_NUM_THREADS": "2"},
    ]


@pytest.mark.parametrize("text", ["", "--num-envs", "32,64", "=3", "A=", "-a b c"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--try"):
        parse_trials(text)


WORK = """
import argparse, os, time
parser = argparse.ArgumentParser()
parser.add_argument("--work", type=int, default=20)
amount = int(os.environ.get("WORK", parser.parse_args().work))
world, end = World(), time.time() + 60
while time.time() < end:
    world.step(1)
    sum(range(1000 * amount))
"""


@pytest.mark.parametrize("trial", [pytest.param("--work 1", marks=pytest.mark.slow), "WORK=1"])
def test_a_trial_runs_the_whole_script_with_the_change(tmp_path: Path, trial: str) -> None:
    write(tmp_path, WORK)
    report, done = examine("python", "train.py", cwd=tmp_path, budget=16, options=("--try", trial))
    assert done.returncode == 0
    outcome = next(row for row in report["outcomes"] if row["change"] == trial)
    assert outcome["verdict"] == "helps"
    assert outcome["gain"]["factor"] > 2


DQN = """
import random
import gymnasium, torch

torch.set_num_threads(1)
envs = gymnasium.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync")
net = torch.nn.Sequential(torch.nn.Linear(4, 24), torch.nn.ReLU(), torch.nn.Linear(24, 2))
optimizer, replay = torch.optim.Adam(net.parameters()), []
obs, _ = envs.reset(seed=0)
for _ in range(3_000):
    with torch.no_grad():
        actions = net(torch.as_tensor(obs)).argmax(1).numpy()
    next_obs, rewards, terminated, truncated, _ = envs.step(actions)
    replay.append((obs, actions, rewards, next_obs, terminated))
    obs = next_obs
    batch = random.sample(replay, min(8, len(replay)))
    states = torch.cat([torch.as_tensor(row[0]) for row in batch])
    loss = net(states).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_the_same_work_is_written_as_a_config_and_compared(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DQN)
    options = ("--compare", "--migrate", "same.toml")
    report, done = examine(sys.executable, "train.py", cwd=tmp_path, budget=100, options=options)
    assert done.returncode == 0, done.stderr
    config = tomllib.loads((tmp_path / "same.toml").read_text())
    assert config["env"] == "gym:CartPole-v1"
    assert config["algo"] == "dqn"
    assert config["num_envs"] == 4
    assert report["script"]["counters"][0] == ["environments", "4"]
    assert {"act", "env", "update"} <= {row["name"] for row in report["phases"]}
    assert any(row["name"] == "the same in briskrl" for row in report["outcomes"])


def test_a_script_that_cannot_be_migrated_gets_the_reason(tmp_path: Path) -> None:
    write(tmp_path, WORK)
    report, _ = examine("python", "train.py", cwd=tmp_path, options=("--migrate", "same.toml"))
    assert "not registered with Gymnasium" in " ".join(report["notes"])
    assert not (tmp_path / "same.toml").exists()
