"""What replicas exchange once per round: ended episodes, decisions of the first one, and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import BriskError
from briskrl.core.types import EpisodeStats
from briskrl.nets.replica_group import ReplicaGroup
from briskrl.training.reporter import StopSignal

STOPS: tuple[StopSignal | None, ...] = (None, "sighup", "sigint", "sigterm")
"""Signals by their codes in an exchange."""
_FIRST_ROOM = 32
"""Episodes for which the first exchange has room."""
_COUNT, _ENV_STEPS, _CPU_S, _DIGEST, _SAVE, _STOP, _HEADER = range(7)
"""Elements of a replica's header."""
_STEP, _ENV, _STEPS, _RETURN, _SCORE, _WON, _CAUSE, _COLUMNS = range(8)
"""Columns of an episode."""

Numbers = NDArray[np.float64]
Ended = tuple[int, EpisodeStats]
"""The transitions collected when some episodes had ended, and these."""


class ReplicasDifferError(BriskError):
    """The replicas of a run do not have the same networks any more."""

    exit_code = 1


class Decision(NamedTuple):
    """What the first replica has decided; the others follow."""

    save: bool = False
    """Whether to save at the end of the round."""
    stop: StopSignal | None = None
    """Why to stop after it."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a replica knows of all replicas after the exchange."""

    ended: list[Ended]
    """Episodes of all of them, as one process would have them."""
    episodes: int
    """How many these are."""
    cpu_s: tuple[float, ...]
    """CPU seconds of every replica."""
    decision: Decision


class Exchange:
    """Exchanges rounds with the other replicas.

    Args:
        group: The replicas.
        num_envs: Environments of each replica.
    """

    def __init__(self, group: ReplicaGroup, num_envs: int) -> None:
        self._group = group
        self._first_env = group.rank * num_envs
        self._block = _new_block(_FIRST_ROOM)

    def run(
        self,
        ended: list[Ended],
        *,
        env_steps: int,
        cpu_s: float,
        digest: int = 0,
        decision: Decision,
    ) -> Round:
        """Exchange one round.

        Args:
            ended: Episodes of the own environments.
            env_steps: Transitions of the run.
            cpu_s: CPU seconds of this process.
            digest: Of networks that must be equal on all replicas; 0 if they are not checked.
            decision: Only that of the first replica counts.

        Raises:
            ReplicasDifferError: The networks differ.
        """
        own = self._rows(ended)
        block = self._block
        block[0, :_HEADER] = (
            len(own),
            env_steps,
            cpu_s,
            digest,
            decision.save,
            STOPS.index(decision.stop),
        )
        if len(own) < len(block):
            block[1 : len(own) + 1] = own
        found = self._group.gather(block)
        headers = found[:, 0]
        _check(headers)
        counts = headers[:, _COUNT].astype(int)
        most = int(counts.max())
        if most >= len(block):
            # All replicas know the counts, so all of them make the same room.
            self._block = block = _new_block(2 * most)
            block[1 : len(own) + 1] = own
            found = self._group.gather(block)
        rows = np.concatenate(
            [part[1 : count + 1] for part, count in zip(found, counts, strict=True)]
        )
        return Round(
            ended=_by_step(rows),
            episodes=int(counts.sum()),
            cpu_s=tuple(headers[:, _CPU_S].tolist()),
            decision=Decision(bool(headers[0, _SAVE]), STOPS[int(headers[0, _STOP])]),
        )

    def _rows(self, ended: list[Ended]) -> Numbers:
        """Episodes as rows, with the numbers of the environments in the run."""
        parts = [_to_rows(step, stats, self._first_env) for step, stats in ended if stats.count]
        return np.concatenate(parts) if parts else np.zeros((0, _COLUMNS))


def _new_block(episodes: int) -> Numbers:
    return np.zeros((episodes + 1, _COLUMNS))


def _check(headers: Numbers) -> None:
    """Check that all replicas are at the same point, with the same networks.

    Raises:
        ReplicasDifferError: They are not.
    """
    for column, what in ((_ENV_STEPS, "numbers of steps"), (_DIGEST, "weights")):
        if (headers[:, column] != headers[0, column]).any():
            step = int(headers[:, _ENV_STEPS].min())
            raise ReplicasDifferError(
                f"The replicas have different {what} after {step:,} steps, so that they do not "
                "train one network any more. The last checkpoint is intact. Do all of them run "
                "the same versions on the same kind of processor?"
            )


def _to_rows(step: int, stats: EpisodeStats, first_env: int) -> Numbers:
    rows = np.empty((stats.count, _COLUMNS))
    rows[:, _STEP] = step
    rows[:, _ENV] = stats.env + first_env
    rows[:, _STEPS] = stats.steps
    rows[:, _RETURN] = stats.returns
    rows[:, _SCORE] = stats.score
    rows[:, _WON] = stats.won
    rows[:, _CAUSE] = stats.cause
    return rows


def _by_step(rows: Numbers) -> list[Ended]:
    """Episodes in the order of one process: by step, then by replica."""
    rows = rows[np.argsort(rows[:, _STEP], kind="stable")]
    steps, begins = np.unique(rows[:, _STEP], return_index=True)
    parts = np.split(rows, begins[1:]) if len(rows) else []
    return [(int(step), _to_stats(part)) for step, part in zip(steps, parts, strict=True)]


def _to_stats(rows: Numbers) -> EpisodeStats:
    return EpisodeStats(
        env=rows[:, _ENV].astype(np.int32),
        steps=rows[:, _STEPS].astype(np.int32),
        returns=rows[:, _RETURN].astype(np.float32),
        score=rows[:, _SCORE].astype(np.float32),
        won=rows[:, _WON].astype(np.bool_),
        cause=rows[:, _CAUSE].astype(np.uint8),
    )
