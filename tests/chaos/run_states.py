"""Small runs that save at fixed steps, and whether a copy of one resumes to the same end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from briskrl.training.config import TrainConfig
from briskrl.training.loop import resume
from briskrl.training.recorder import RunRecorder
from briskrl.training.storage.checkpoint import list_checkpoints, read_newest
from briskrl.training.storage.run_dir import RunDir
from tests.training.runs import policy_hash, small_config

SAVES = (800, 1600, 2400)
STEPS = 3200


def config(run_dir: Path, preset: str) -> TrainConfig:
    """A run that saves only when a hook does, and at its end."""
    return small_config(run_dir, preset, steps=STEPS, warmup=False)


class SaveAt:
    """Saves at these steps, then calls `done` with the step."""

    def __init__(
        self, steps: tuple[int, ...], done: Callable[[int], None] = lambda step: None
    ) -> None:
        self._steps = list(steps)
        self._done = done

    def __call__(self, recorder: RunRecorder) -> None:
        step = recorder.trainer.counters.env_steps
        if self._steps and step >= self._steps[0]:
            self._steps.pop(0)
            recorder.save()
            self._done(step)


def saved_step(run_dir: Path) -> int:
    """Step of the newest checkpoint, which must not be a fallback."""
    saved = read_newest(run_dir / "checkpoints")
    assert saved.notes == (), saved.notes
    return saved.step


def fingerprint(run_dir: Path) -> tuple[str, bytes]:
    return policy_hash(run_dir), (run_dir / "episodes.csv").read_bytes()


def resumes_to(run_dir: Path, whole: tuple[str, bytes]) -> bool:
    """Whether the run, continued if it is not finished, ends like the whole one."""
    if list_checkpoints(run_dir / "checkpoints") and saved_step(run_dir) == STEPS:
        # As evaluation does; it replaces a policy that is older than the checkpoint.
        RunDir.open(run_dir).load_policy_files()
    else:
        resume(run_dir)
    return fingerprint(run_dir) == whole
