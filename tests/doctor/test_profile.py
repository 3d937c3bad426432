"""Profiles of small loops that really run."""

from __future__ import annotations

import gzip
import json
import pstats
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import pytest
import torch

from briskrl.core.errors import ConfigError
from briskrl.core.phase import PhaseTimer
from briskrl.doctor import py_spy
from briskrl.doctor.examination import run_until_learning
from briskrl.doctor.profile import TOP, profile
from briskrl.doctor.train_loop import TrainLoop
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete


def busy_work(rounds: int) -> int:
    total = 0
    for value in range(rounds):
        total += value * value
    return total


class Busy:
    """A loop of Python and torch, written by hand."""

    def __init__(self) -> None:
        self.timer = PhaseTimer()
        self.steps = 0
        self.updates = 0
        self.episodes = None
        self.inside = 0
        self._matrix = torch.ones(8, 8)

    def enter(self) -> None:
        self.inside += 1

    def leave(self) -> None:
        self.inside -= 1

    def iterate(self) -> None:
        assert self.inside == 1
        busy_work(20_000)
        self._matrix @ self._matrix
        self.steps += 4

    def close(self) -> None:
        pass


@pytest.fixture
def loop() -> Iterator[Busy]:
    loop = Busy()
    yield loop
    assert loop.inside == 0


def only(folder: Path, made: dict[str, object], name: str) -> Path:
    """The one file of a profile."""
    assert made["files"] == [str(folder / name)]
    return folder / name


def test_cprofile_names_the_function_that_takes_the_time(loop: Busy, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    made = profile(loop, "cprofile", 0.3, folder)
    first = made["top"][0]
    assert first["name"].endswith(" busy_work")
    assert "test_profile.py:" in first["name"]
    assert first["share"] > 0.5
    # An iteration before it is not profiled.
    assert first["calls"] == loop.steps // 4 - 1 == made["steps"] // 4
    assert 0 < first["own_s"] <= first["total_s"] <= made["seconds"] * 1.01
    assert [entry["own_s"] for entry in made["top"]] == sorted(
        (entry["own_s"] for entry in made["top"]), reverse=True
    )
    assert made["why"] == ""
    saved = pstats.Stats(str(only(folder, made, "profile.pstats")))
    assert any(name == "busy_work" for _, _, name in saved.stats)  # type: ignore[attr-defined]


def test_cprofile_reports_that_another_profiler_is_active(
    loop: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken:
        def enable(self) -> None:
            raise ValueError("Another profiling tool is already active")

    monkeypatch.setattr("briskrl.doctor.profile.cProfile.Profile", Taken)
    made = profile(loop, "cprofile", 0.1, tmp_path)
    assert made["why"] == "cProfile cannot start: Another profiling tool is already active"
    assert (made["files"], made["top"]) == ([], [])


def test_torch_names_the_operator_and_saves_a_trace(loop: Busy, tmp_path: Path) -> None:
    made = profile(loop, "torch", 0.1, tmp_path)
    operators = {entry["name"]: entry for entry in made["top"]}
    assert operators["aten::mm"]["calls"] == made["steps"] // 4
    assert made["top"][0]["share"] == max(entry["share"] for entry in made["top"])
    with gzip.open(only(tmp_path, made, "profile.trace.json.gz")) as trace:
        events = json.load(trace)["traceEvents"]
    assert sum(event.get("name") == "aten::mm" for event in events) == made["steps"] // 4
    # Most of this loop is Python, and the profile does not hide that.
    assert "torch operators took" in made["why"]


needs_py_spy = pytest.mark.skipif(py_spy.find_py_spy() is None, reason="py-spy is not installed")


@needs_py_spy
def test_pyspy_sees_the_function_that_takes_the_time(loop: Busy, tmp_path: Path) -> None:
    made = profile(loop, "pyspy", 1.0, tmp_path)
    if "not permitted" in made["why"]:
        pytest.skip(made["why"])
    assert made["why"] == ""
    first = made["top"][0]
    assert first["name"].endswith(" busy_work")
    assert first["calls"] is None
    assert first["share"] > 0.5
    assert made["steps"] > 0
    recorded = json.loads(only(tmp_path, made, "profile.speedscope.json").read_text())
    assert recorded["shared"]["frames"]


def test_without_py_spy_the_message_has_the_install_command(
    loop: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py_spy, "find_py_spy", lambda: None)
    made = profile(loop, "pyspy", 1.0, tmp_path)
    assert made["why"] == "py-spy is not installed: pip install 'briskrl[doctor]'"
    assert made["top"] == []


def program(folder: Path, body: str) -> str:
    """A fake py-spy that can be made to fail."""
    path = folder / "py-spy"
    path.write_text(f"#!{sys.executable} -S\n{body}\n")
    path.chmod(0o755)
    return str(path)


DENIED = "Permission Denied: Try running again with elevated permissions"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            f"import sys; sys.exit({DENIED!r})",
            "py-spy is not permitted to trace this process. Run as root",
        ),
        ("import sys; sys.exit('Error: odd\\n\\nStack backtrace:')", "Its message: Error: odd"),
        ("raise SystemExit(3)", "Its message: nothing; it exited with code 3"),
        ("import time; time.sleep(60)", "Its message: nothing; it did not finish in time"),
    ],
)
def test_errors_of_py_spy_are_passed_on(
    body: str, message: str, loop: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(py_spy, "find_py_spy", lambda: program(tmp_path, body))
    if "sleep" in body:
        monkeypatch.setattr(py_spy, "GRACE_S", 0.1)
    began = perf_counter()
    made = profile(loop, "pyspy", 0.2 if "sleep" in body else 5.0, tmp_path)
    assert message in made["why"]
    assert "backtrace" not in made["why"]
    assert (made["files"], made["top"]) == ([], [])
    assert perf_counter() - began < 30


def test_samples_of_all_threads_are_summed() -> None:
    names = [{"name": name, "file": "a.py", "line": line} for line, name in enumerate("fgh")]
    recorded = {
        "shared": {"frames": names},
        "profiles": [
            {"samples": [[0, 1], [0, 1, 0], []], "weights": [1.0, 2.0, 9.0]},
            {"samples": [[2]], "weights": [4.0]},
        ],
    }
    found = {frame.name: (frame.own_s, frame.total_s) for frame in py_spy.frames(recorded)}
    assert found == {"f": (2.0, 3.0), "g": (1.0, 3.0), "h": (4.0, 4.0)}


def test_a_real_training_can_be_profiled(tmp_path: Path) -> None:
    config = TrainConfig(
        env="snake", algo="dqn", num_envs=8, engine="torch", threads=1, warmup=False
    )
    loop = TrainLoop(complete(config))
    try:
        # Kernels that are not in the cache yet compile before the profile.
        run_until_learning(loop)
        made = profile(loop, "cprofile", 0.5, tmp_path)
        traced = profile(loop, "torch", 0.1, tmp_path)
    finally:
        loop.close()
    assert len(made["top"]) == TOP
    assert any("briskrl/" in entry["name"] for entry in made["top"])
    assert any(entry["name"].startswith("aten::") for entry in traced["top"])


def test_an_unknown_profiler_is_refused_before_anything_runs(loop: Busy, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cprofile, torch, pyspy"):
        profile(loop, "gprof", 1.0, tmp_path)
    assert loop.steps == 0


def test_a_folder_that_cannot_be_written_is_reported_not_raised(loop: Busy, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = profile(loop, "cprofile", 0.1, tmp_path / "file" / "folder")
    assert made["why"].startswith("the profile cannot be saved in ")
    assert made["files"] == []
