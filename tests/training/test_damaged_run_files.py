"""Damaged files of a run folder end a resume or an evaluation with a clear error, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from briskrl.core.errors import BriskError
from briskrl.training.evaluate import load_policy
from briskrl.training.loop import resume, train
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.run_dir import RunDir
from tests.training.runs import small_config

FILES = [
    "config.toml",
    "meta.json",
    "status.json",
    "lock",
    "checkpoints/LATEST",
    "checkpoints/NEWEST/MANIFEST.json",
    "checkpoints/NEWEST/state.json",
    "checkpoints/NEWEST/model.safetensors",
    "policy/policy.json",
    "policy/model.safetensors",
    "metrics.jsonl",
]
DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": Path.touch,
    "garbage": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "number": lambda path: path.write_text("1e999"),
    "deep": lambda path: path.write_text("[" * 100_000),
    "folder": Path.mkdir,
    "link to nowhere": lambda path: path.symlink_to("nowhere"),
    "pipe": os.mkfifo,
}
FAST = ("garbage", "pipe")
"""Damages that every run of the tests covers; the others are slow."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    config = {"warmup": False, "checkpoint_steps": 160}
    train(small_config(folder / "run", steps=320, **config))
    train(small_config(folder / "whole", steps=480, **config))
    return folder


def damaged_copy(stopped: Path, place: Path, name: str, damage: str) -> Path:
    run = Path(shutil.copytree(stopped / "run", place))
    newest = list_checkpoints(run / "checkpoints")[0].name
    path = run / name.replace("NEWEST", newest)
    path.unlink()
    DAMAGES[damage](path)
    return run


def weights(run: Path) -> dict[str, bytes]:
    """The policy that evaluation plays."""
    state, _ = RunDir.open(run).load_policy_files()
    return {name: array.tobytes() for name, array in state.arrays.items()}


def message_of(action: Callable[[], object]) -> str | None:
    """The message of the error that ends the action, if one does."""
    try:
        action()
    except BriskError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    "damage",
    [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in DAMAGES],
)
def test_a_damaged_file_leads_to_a_clear_error_or_to_the_right_result(stopped, tmp_path, damage):
    resumed = []
    for name in FILES:
        place = tmp_path / name.replace("/", "-")
        run = damaged_copy(stopped, place / "eval", name, damage)
        message = message_of(lambda run=run: load_policy(run))
        assert message is None or str(run) in message, name
        run = damaged_copy(stopped, place / "resume", name, damage)
        message = message_of(lambda run=run: resume(run, steps=480))
        if message is None:
            assert weights(run) == weights(stopped / "whole"), name
            resumed.append(name)
        else:
            assert str(run) in message, name
    # Neither of these is needed: there are an older checkpoint and the weights in checkpoints.
    needless = {name for name in FILES if name.startswith(("checkpoints", "policy"))}
    if damage == "folder":
        # LATEST cannot be replaced while a folder has its name.
        needless.remove("checkpoints/LATEST")
    assert set(resumed) >= needless


@pytest.mark.parametrize("sessions", [5, "text", {}, [1, None], None])
def test_sessions_of_another_kind_do_not_stop_a_resume(stopped, tmp_path, sessions):
    run = Path(shutil.copytree(stopped / "run", tmp_path / "run"))
    meta = json.loads((run / "meta.json").read_text())
    (run / "meta.json").write_text(json.dumps({**meta, "sessions": sessions}))
    resume(run, steps=480)
    found = json.loads((run / "meta.json").read_text())["sessions"]
    assert [session["exit_reason"] for session in found] == ["finished"]
