"""Check the environment step by step against recorded episodes of the original simulator.

A recording is a mapping of arrays, N episodes with T time slots each: `length`, `red_agent`,
`blue_action`, the choices of `briskrl.envs.cage2.replay.Choices`, and the arrays to compare:
`obs` (N, T+1, 52), `reward` (N, T) and fields of `briskrl.envs.cage2.ground_truth.Truth`
(N, T, ...). The README beside the recordings in tests/envs/cage2/golden describes each array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from briskrl.core.types import Array, Bools, StepBuffers
from briskrl.envs.cage2.env import Cage2VecEnv
from briskrl.envs.cage2.ground_truth import Truth
from briskrl.envs.cage2.replay import Allowed, Choices, replay_step, set_red

REWARD_TOLERANCE = 1e-4
_EXPLOITING = 3
_COMPARED = tuple(field.name for field in fields(Truth) if field.name not in ("steps", "returns"))


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a recording and the environment."""

    array: str
    """The recorded array; "candidates" for a choice of red that its model does not allow, "options"
    for an exploit that its memory does not suggest."""
    episode: int
    step: int
    """-1 for the reset."""


def check_recording(recording: Mapping[str, Array], **settings: Any) -> list[Difference]:
    """Replay all episodes of a recording; returns all differences.

    Args:
        recording: Arrays as described above.
        settings: Fields of Cage2Config such as the edition.
    """
    lengths = recording["length"]
    count, slots = recording["blue_action"].shape
    env = Cage2VecEnv(count, **settings, length=slots, autoreset_mode="Disabled")
    out = StepBuffers.allocate(env.env_spec, count)
    env.start(0, out)
    set_red(env, recording["red_agent"])
    found = list(_differ("obs", -1, out.obs, recording["obs"][:, 0], lengths > -1))
    for step in range(slots):
        live = lengths > step
        row = {
            name: array[:, step + (name == "obs")]
            for name, array in recording.items()
            if array.ndim > 1
        }
        choices = Choices(**{field.name: row[field.name] for field in fields(Choices)})
        allowed = replay_step(env, row["blue_action"], choices, out)
        found += _compare(step, row, live, env.truth(), out)
        found += _check_choices(step, row, live, allowed)
    return found


def _compare(
    step: int, row: Mapping[str, Array], live: Bools, truth: Truth, out: StepBuffers
) -> Iterator[Difference]:
    close = np.abs(out.reward - row["reward"]) <= REWARD_TOLERANCE
    yield from _differ("reward", step, close, np.ones_like(close), live)
    yield from _differ("obs", step, out.obs, row["obs"], live)
    for name in _COMPARED:
        if name in row:
            yield from _differ(name, step, getattr(truth, name), row[name], live)


def _check_choices(
    step: int, row: Mapping[str, Array], live: Bools, allowed: Allowed
) -> Iterator[Difference]:
    kind, target, exploit = (
        row[name].astype(np.int64) for name in ("red_action", "red_target", "red_exploit")
    )
    among = np.where(kind > 0, allowed.targets >> np.maximum(target, 0) & 1, allowed.targets == 0)
    fits = (kind == allowed.action) & (among == 1)
    yield from _differ("candidates", step, fits, np.ones_like(fits), live)
    among = np.where(
        exploit >= 0, allowed.exploits >> np.maximum(exploit, 0) & 1, allowed.exploits == 0
    )
    fits = (kind != _EXPLOITING) | (among == 1)
    yield from _differ("options", step, fits, np.ones_like(fits), live)


def _differ(name: str, step: int, ours: Array, theirs: Array, live: Bools) -> Iterator[Difference]:
    same = (ours == theirs).reshape(len(live), -1).all(axis=1)
    for episode in np.flatnonzero(live & ~same):
        yield Difference(name, int(episode), step)
