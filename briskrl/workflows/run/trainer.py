"""Training under workflows: what comes on top of training any policy.

`ConditionedTrainer` counts compliance, decides after every update whether training ends, and in
joint training decides which workflows new episodes get.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import check_finite, check_range
from briskrl.core.types import JSON, Array, EpisodeStats, State
from briskrl.envs.workflow.env import WorkflowVecEnv
from briskrl.envs.workflow.records import ComplianceRecords
from briskrl.training.config import TrainConfig
from briskrl.training.storage.checkpoint import RunState
from briskrl.training.trainer import Trainer
from briskrl.workflows.run.counts import Counts
from briskrl.workflows.run.return_average import ReturnAverage
from briskrl.workflows.run.stop_config import Reason
from briskrl.workflows.run.stop_rules import stop_reason
from briskrl.workflows.run.trainer_config import Course
from briskrl.workflows.run.weights import Start, load_weights

REFRESH_UPDATES = 20
"""Updates between two choices of the workflows that look best."""
FOCUSED = 0.5
"""Part of the episodes that gets one of these; and part of training before that begins."""
STATE = "workflow"
"""Name of the state among those of a checkpoint."""
Rows = list[list[float]]


@dataclass(frozen=True, slots=True)
class Update:
    """What happened in one rollout and the updates on it."""

    number: int
    """From 1."""
    counts: Counts
    macro_compliance: float
    env_steps: int
    """Of all environments, so far."""
    total_episodes: int
    alignment_lambda: float
    figures: Mapping[str, float]
    """Losses and seconds; see `updates.csv`."""
    episodes: Rows = field(default_factory=list)
    """A row per episode: environment, workflow id, steps, return, bonus, ok, judged, idle,
    contested."""


class ConditionedTrainer(Trainer):
    """A trainer of environments with workflows.

    Args:
        config: Settings of the run; its environment is a `workflow:` one.
        course: How training goes on and ends.
        start: Weights to begin with; new ones by default.
        about: What the weights must have been trained for.
    """

    def __init__(
        self,
        config: TrainConfig,
        course: Course,
        *,
        start: Start | None = None,
        about: Mapping[str, JSON] | None = None,
    ) -> None:
        self.course = course
        self.reason: Reason | None = None
        """Why training has ended."""
        self.updates: list[Counts] = []
        """Counts of the episodes that ended in each rollout."""
        self.fresh: list[Update] = []
        """Updates that `take_updates` has not returned yet."""
        self._averages = ReturnAverage()
        self._open: list[ComplianceRecords] = []
        """Episodes of the rollout under way."""
        super().__init__(config)
        m = self.workflow_env.space.m
        self.pairs = np.zeros((m, m), np.int64)
        """Judged fixes at which both categories were open; upper triangle."""
        self._before = self._phase_seconds()
        if start is not None:
            load_weights(self.algo, start, about or {})

    @property
    def workflow_env(self) -> WorkflowVecEnv:
        """The environments, which know their workflows."""
        assert isinstance(self.env, WorkflowVecEnv)
        return self.env

    @property
    def is_done(self) -> bool:
        """Whether a stop rule has ended training."""
        return self.reason is not None

    def iterate(self) -> EpisodeStats:
        """See Trainer; after an update, decide how training goes on."""
        before = self.counters.updates
        ended = super().iterate()
        if ended.count:
            self._open.append(self.workflow_env.drain_compliance())
        if self.counters.updates > before:
            self._finish_update()
        return ended

    def take_updates(self) -> list[Update]:
        """The updates since the last call."""
        taken, self.fresh = self.fresh, []
        return taken

    def state(self) -> RunState:
        """See Trainer."""
        saved = super().state()
        columns = [list(counts.as_json().values()) for counts in self.updates]
        arrays: dict[str, Array] = {
            "updates": np.array(columns, np.float64).reshape(-1, len(Counts().as_json())),
            "pairs": self.pairs.copy(),
            "averages": self._averages.state(),
        }
        if self._open:
            arrays |= {
                f"open.{name}": getattr(self._joined(), name)
                for name in ComplianceRecords.__dataclass_fields__
            }
        saved.states[STATE] = State(arrays, {"reason": self.reason})
        return saved

    def load_state(self, states: dict[str, State], counters: dict[str, int]) -> None:
        """See Trainer."""
        super().load_state(states, counters)
        saved = states.get(STATE)
        if saved is None:
            raise InvalidStateError("the state of training under workflows is missing")
        self.updates = _loaded_updates(saved.arrays.get("updates"))
        pairs = saved.arrays.get("pairs")
        if pairs is None or pairs.dtype != np.int64 or pairs.shape != self.pairs.shape:
            raise InvalidStateError("the counts of pairs are missing")
        check_range("counts of pairs", pairs, 0, 2**53)
        self.pairs[...] = pairs
        most = math.factorial(self.workflow_env.space.m)
        self._averages.load_state(saved.arrays.get("averages", np.zeros(0)), most)
        self._open = _loaded_records(saved.arrays)
        self.reason = saved.scalars.get("reason")
        self.fresh = []

    def _joined(self) -> ComplianceRecords:
        return ComplianceRecords.concatenate(self._open)

    def _finish_update(self) -> None:
        records = self._joined() if self._open else self.workflow_env.drain_compliance()
        self._open = []
        counts = counts_of(records)
        self.updates.append(counts)
        first, second = np.triu_indices(len(self.pairs), 1)
        self.pairs[first, second] += records.pairs.sum(axis=0)
        if self.course.draw == "focused":
            self._averages.add(records.workflow_id, records.env_return)
            self._choose_focus()
        self.fresh.append(self._update(counts, records))
        self.reason = stop_reason(
            self.updates,
            self.course.stop,
            threshold=self.course.threshold,
            cap=self.course.cap,
            cap_is_budget=self.course.cap_is_budget,
        )

    def _choose_focus(self) -> None:
        """In the second half, give more episodes to the workflows that look best."""
        late = self.counters.episodes >= FOCUSED * self.course.cap
        if late and len(self.updates) % REFRESH_UPDATES == 0:
            space = self.workflow_env.space
            rng = self.streams["focus"]
            self.workflow_env.draw_from(self._averages.focus(space, rng), FOCUSED)

    def _update(self, counts: Counts, records: ComplianceRecords) -> Update:
        seconds = self._phase_seconds()
        # The timer begins anew after the warm-up.
        spent = {n: s - min(s, self._before[n]) for n, s in seconds.items()}
        self._before = seconds
        whole_s = sum(spent.values())
        steps = self.config.num_envs * self.config.algo_config.update_steps
        figures = {
            **self.algo.progress(self.counters),
            **spent,
            "steps_per_s": steps / whole_s if whole_s > 0 else math.nan,
        }
        return Update(
            number=len(self.updates),
            counts=counts,
            macro_compliance=records.macro_compliance,
            env_steps=self.counters.env_steps,
            total_episodes=self.counters.episodes,
            alignment_lambda=self.workflow_env.alignment_lambda,
            figures=figures,
            episodes=_episode_rows(records),
        )

    def _phase_seconds(self) -> dict[str, float]:
        phases = self.timer.seconds()
        return {
            "collect_s": phases["act"] + phases["env"] + phases["store"] + phases["log"],
            "update_s": phases["sample"] + phases["update"],
        }


def counts_of(records: ComplianceRecords) -> Counts:
    """The sums over episodes."""
    return Counts(
        episodes=records.count,
        steps=int(records.steps.sum()),
        returns=float(records.env_return.sum()),
        bonus=float(records.bonus.sum()),
        ok=int(records.ok.sum()),
        judged=int(records.judged.sum()),
        idle=int(records.idle.sum()),
        contested=int(records.contested.sum()),
        contested_ok=int(records.contested_ok.sum()),
    )


def _episode_rows(records: ComplianceRecords) -> Rows:
    columns = (
        *(records.env, records.workflow_id, records.steps, records.env_return, records.bonus),
        *(records.ok, records.judged, records.idle, records.contested),
    )
    return [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _loaded_updates(rows: Array | None) -> list[Counts]:
    names = list(Counts().as_json())
    if rows is None or rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != len(names):
        raise InvalidStateError("the counts of the updates are missing")
    check_finite("counts of updates", rows)
    whole_numbers = {name for name, value in Counts().as_json().items() if isinstance(value, int)}
    return [
        Counts(**{n: int(v) if n in whole_numbers else v for n, v in zip(names, row, strict=True)})
        for row in rows.tolist()
    ]


def _loaded_records(arrays: Mapping[str, Array]) -> list[ComplianceRecords]:
    names = list(ComplianceRecords.__dataclass_fields__)
    if "open.env" not in arrays:
        return []
    missing = [name for name in names if f"open.{name}" not in arrays]
    if missing:
        raise InvalidStateError(f"the episodes under way lack {', '.join(missing)}")
    return [ComplianceRecords(*(arrays[f"open.{name}"] for name in names))]
