"""Memory that grows with its lines, loops in other threads, and the CPU time of phases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doctor.script.examine_command import examine
from tests.doctor.script.test_patterns import line_of
from tests.doctor.script.watched_scripts import write

IN_A_THREAD = """
import sys, threading, time

kept = []

def play(seconds):
    world, end = World(), time.time() + seconds
    while time.time() < end:
        obs, reward, done = world.step(1)
        kept.append([obs] * 250)  # found here

def main():
    thread = threading.Thread(target=play, args=(float(sys.argv[1]),))
    thread.start()
    thread.join()

main()
"""


def test_a_loop_in_a_thread_is_seen_and_the_line_whose_memory_stays(tmp_path: Path) -> None:
    write(tmp_path, IN_A_THREAD)
    report, done = examine("python", "train.py", 100, cwd=tmp_path, budget=20)
    assert done.returncode == 0, done.stderr
    assert report["speed"]["steps"] > 100
    assert {row["name"] for row in report["phases"]} >= {"env"}
    script = report["script"]
    assert any("another thread" in line for line in script["unseen"])
    place = f"train.py:{line_of(tmp_path, 'found here')}"
    assert place in dict(script["counters"])["memory growth"]
    found = {finding["cause"]: finding for finding in report["findings"]}
    assert found["leak"]["location"] == place


FILLING = """
import sys, time
from collections import deque

replay = deque(maxlen=10_000_000)
world, end = World(), time.time() + float(sys.argv[1])
while time.time() < end:
    obs, reward, done = world.step(1)
    replay.append([obs] * 500)  # found here
"""


@pytest.mark.slow
def test_a_deque_that_is_filling_is_no_leak(tmp_path: Path) -> None:
    write(tmp_path, FILLING)
    report, _ = examine("python", "train.py", 100, cwd=tmp_path, budget=20)
    assert not [finding for finding in report["findings"] if finding["cause"] == "leak"]
    growth = dict(report["script"]["counters"])["memory growth"]
    assert f"train.py:{line_of(tmp_path, 'found here')}, where a buffer is filling" in growth


WAITING = """
import sys, time

def pause():
    time.sleep(0.01)

world, end = World(), time.time() + float(sys.argv[1])
while time.time() < end:
    for _ in range(200):
        world.step(1)
    pause()
"""


def test_a_phase_that_waits_takes_no_cpu_time(tmp_path: Path) -> None:
    write(tmp_path, WAITING)
    report, _ = examine("python", "train.py", 4, cwd=tmp_path, budget=10)
    rows = {row["name"]: row for row in report["phases"]}
    wait = rows["wait"]
    assert wait["cpu_s"] < 0.5 * wait["wall_s"]
    cpu, wall = (sum(row[key] for row in rows.values()) for key in ("cpu_s", "wall_s"))
    assert wait["cpu_s"] / cpu < wait["wall_s"] / wall


LIMITS = """
import sys, time

class Limited(World):
    def step(self, action):
        obs, reward, terminated = super().step(action)
        return obs, reward, terminated, obs % 7 == 0, {}

class Replay:
    def __init__(self):
        self.rows = []

    def add(self, *row, done=False):
        self.rows = [row, done]

    def sample(self):
        return self.rows

world, replay, end = Limited(), Replay(), time.time() + float(sys.argv[1])
while time.time() < end:
    obs, reward, terminated, truncated, info = world.step(1)
    over = terminated if reward < 0 else terminated or truncated
    obs = 0 if terminated or truncated else obs
    replay.add(obs, 1, reward, obs, done=float(over))  # found here
    replay.add(obs, 1, reward, obs, terminated | truncated)  # and here
    replay.add(obs, 1, reward, obs, terminated)
    replay.add(obs, 1, reward, over, info)
"""


def test_time_limits_that_are_stored_as_ends_are_suspicious_in_any_form(tmp_path: Path) -> None:
    write(tmp_path, LIMITS)
    report, _ = examine("python", "train.py", 2, cwd=tmp_path)
    lines = [line for line in report["script"]["warnings"] if "time limit" in line]
    places = [line.split(": ")[0] for line in lines]
    assert places == [
        f"train.py:{line_of(tmp_path, 'found here')}",
        f"train.py:{line_of(tmp_path, 'and here')}",
    ]
