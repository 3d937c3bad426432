"""Slow scripts whose cause must be named with its place, and a healthy one without findings."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.script.examine_command import examine
from tests.doctor.script.watched_scripts import write

RUN = """
import sys, time

def main():
    world, state, end = World(), State(), time.time() + float(sys.argv[1])
    while time.time() < end:
        obs, reward, done = world.step(1)
        work(state, obs, done)

class State:
    def __init__(self):
        self.rows, self.count = [], 0

"""

SYNCED = """
import os

def work(state, obs, done):
    with open("rows.csv", "a") as file:
        file.write(f"{obs}\\n")  # found here
        file.flush()
        os.fsync(file.fileno())
"""
PER_EPISODE = """
import pickle

def work(state, obs, done):
    if done:
        with open("state.pkl", "wb") as file:
            pickle.dump(list(range(20_000)), file)  # found here
"""
COLLECTED = """
import gc

def work(state, obs, done):
    state.count += 1
    gc.collect()  # found here
"""
GROWING = """
def work(state, obs, done):
    state.rows.append(obs)
    state.count = sum(state.rows) / len(state.rows)  # found here
"""
EVALUATED = """
def work(state, obs, done):
    if obs % 20 == 0:
        evaluate(World())

def evaluate(world):
    return sum(world.step(1)[1] for _ in range(100))  # found here
"""
BY_NUMBER = """
def work(state, obs, done):
    table = {}
    for row in range(30):
        for column in range(30):
            table[row, column] = 0.9 * obs * row + column  # found here
"""
HEALTHY = """
def work(state, obs, done):
    state.count += sum(range(200))
"""


def examined(folder: Path, work: str, seconds: float = 3, run: str = RUN) -> dict[str, Any]:
    """The report of a script that does some work after every step."""
    path = write(folder, run + textwrap.dedent(work) + "\nmain()\n")
    report, done = examine("python", path.name, seconds, cwd=folder, budget=10)
    assert done.returncode == 0, done.stderr
    return report


def line_of(folder: Path, text: str) -> int:
    lines = (folder / "train.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("work", "cause"),
    [
        (SYNCED, "write-per-step"),
        (PER_EPISODE, "save"),
        (COLLECTED, "garbage"),
        (GROWING, "growth"),
        (EVALUATED, "eval"),
        (BY_NUMBER, "code"),
    ],
    ids=["synced", "per episode", "collected", "growing", "evaluated", "by number"],
)
def test_the_first_finding_names_the_cause_and_its_place(
    tmp_path: Path, work: str, cause: str
) -> None:
    report = examined(tmp_path, work, seconds=6 if cause == "growth" else 3)
    first = report["findings"][0]
    assert first["cause"] == cause
    name, lines = first["location"].split(":")
    begin, _, end = lines.partition("-")
    assert name == "train.py"
    assert int(begin) - 3 <= line_of(tmp_path, "found here") <= int(end or begin) + 3
    assert first["gain"]["factor"] > 1.08
    assert first["source"]


def test_a_healthy_script_has_no_finding(tmp_path: Path) -> None:
    report = examined(tmp_path, HEALTHY)
    assert report["findings"] == []


VECTOR = """
class Worlds:
    def step(self, actions):
        return [[0.0] * 4] * 24, [1.0] * 24, [False] * 24

    def reset(self):
        return [[0.0] * 4] * 24

class Replay:
    def __init__(self):
        self.rows, self.at = [None] * 5000, 0

    def push(self, *columns):
        self.rows[self.at % 5000] = tuple(map(repr, columns))
        self.at += 1

    def sample(self):
        return self.rows[0]
"""
PUSHES = """
import sys, time

def main(seconds, num_envs=24):
    worlds, replay, step = Worlds(), Replay(), 0
    obs, end = worlds.reset(), time.time() + seconds
    while time.time() < end:
        next_obs, rewards, dones = worlds.step([0] * num_envs)
        for i in range(num_envs):
            replay.push(obs[i], rewards[i], next_obs[i], dones[i])
        step += num_envs
        if step % 1000 == 0:
            update_target(replay)

def update_target(replay):
    pass

main(float(sys.argv[1]))
"""


def test_pushes_one_by_one_are_found_and_a_target_that_is_missed_is_suspicious(
    tmp_path: Path,
) -> None:
    write(tmp_path, VECTOR + PUSHES)
    report, _ = examine("python", "train.py", 3, cwd=tmp_path)
    first = report["findings"][0]
    assert first["cause"] == "store"
    at = line_of(tmp_path, "for i in range(num_envs)")
    assert first["location"] == f"train.py:{at}-{at + 1}"
    assert "self.position" in first["fix"]
    assert report["speed"]["num_envs"] == 24
    assert any("target network" in line for line in report["script"]["warnings"])


SEARCHING = """
import sys, time

class Grid:
    def step(self, action):
        return self.search(action), 0.0, False

    def search(self, start):
        found, queue = set(), [start]  # found here
        while queue:
            cell = queue.pop()
            if cell < 400 and cell not in found:
                found.add(cell)
                queue += [cell + 1, cell + 2]
        return len(found)

grid, end = Grid(), time.time() + float(sys.argv[1])
while time.time() < end:
    grid.step(0)
"""


def test_a_slow_environment_is_found_by_its_slow_function(tmp_path: Path) -> None:
    write(tmp_path, SEARCHING)
    report, _ = examine("python", "train.py", 3, cwd=tmp_path)
    first = report["findings"][0]
    assert first["cause"] == "env"
    assert first["basis"] == "ceiling"
    assert "search()" in first["title"]
    assert first["location"].startswith(f"train.py:{line_of(tmp_path, 'found here') - 1}-")
