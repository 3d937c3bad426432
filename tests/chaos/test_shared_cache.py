"""Several first starts at once compile into one cache, agree, and leave it in order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests.chaos.signalled import Ended, run_brisk
from tests.training.runs import policy_hash

pytestmark = pytest.mark.chaos

RUNS = {
    "equal": ["train snake --algo dqn --steps 30000"] * 4,
    "different": [
        "train snake --algo dqn --steps 30000",
        "train snake --algo dqn --steps 30000 --obs flood",
        "train snake --algo per-dqn --steps 30000",
        "train cartpole --algo ppo --steps 30000",
    ],
}


@pytest.mark.parametrize("commands", RUNS.values(), ids=RUNS)
def test_four_first_starts_at_once_leave_a_cache_that_later_starts_find_complete(
    tmp_path: Path, commands: list[str]
):
    cache = tmp_path / "cache"
    ended: dict[int, Ended] = {}

    def start(number: int, run: str) -> None:
        words = [*commands[number].split(), "--num-envs", "32", "--seed", "3", "--run-dir", run]
        ended[number] = run_brisk(words, folder=tmp_path, XDG_CACHE_HOME=str(cache))

    threads = [threading.Thread(target=start, args=(n, f"run-{n}")) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [ended[number].code for number in range(4)] == [0] * 4, ended
    assert all("ompiled kernels" not in end.errors for end in ended.values()), ended
    # Later starts find everything, and their results are the same.
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")}
    for number in range(4):
        start(number, f"again-{number}")
        assert policy_hash(tmp_path / f"again-{number}") == policy_hash(tmp_path / f"run-{number}")
    if commands[0] == commands[1]:
        assert len({policy_hash(tmp_path / f"run-{number}") for number in range(4)}) == 1
        assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nb?")} == kept
    assert not list(cache.rglob("*.tmp.*"))
