"""A training config as the subject of an examination: which experiments apply to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from briskrl.algos.config import DQNConfig, OnPolicyConfig
from briskrl.doctor.changes import Changes, as_flags, changed
from briskrl.doctor.experiments import Experiment, Skipped
from briskrl.doctor.symptoms import record_cause
from briskrl.doctor.training import (
    TrainLoop,
    pushing_one_by_one,
    without_logs,
    without_updates,
)
from briskrl.doctor.watch import Observation
from briskrl.envs.gym.choose import Costs, measure
from briskrl.envs.gym.config import GymConfig
from briskrl.envs.gym.recipe import EnvRecipe
from briskrl.train.config import TrainConfig
from briskrl.train.effort import Gauge
from briskrl.train.machine import num_cores
from briskrl.train.resolve import complete

Alter = Callable[[TrainLoop], None]

MUCH_LEARNING = 0.125
"""Updates per transition above which fewer are worth a thought."""
USUAL_RATIO = 0.03125
SMALL_SHARE = 0.05
"""Of the time, below which a part is not worth an experiment."""
UNEVEN = 0.3
"""Spread of step times above which waiting for the slowest may be what costs."""
SMALL_BATCH = 64
"""Rows below which an update of a large network is mostly overhead."""

RATIO = "fewer updates per transition: steps are cheaper, and each teaches less"
BATCH = "larger and fewer updates on as many samples"
ENVS = "more or fewer environments: what is collected between two updates changes"
LAG = "updates lag one iteration behind"


class TrainSubject:
    """A config to be examined, run on the side.

    Args:
        config: What to train.
        name: What the report calls it.
        alter: Changes of every loop's parts, made before all else.
    """

    def __init__(
        self, config: TrainConfig, name: str | None = None, alter: Sequence[Alter] = ()
    ) -> None:
        config = complete(config)
        self.config = replace(config, threads=config.num_threads)
        self.name = name or f"{config.env} --algo {config.algo}"
        self.num_envs = config.num_envs
        self._alter = tuple(alter)
        self._engine = ""
        self._refusal = ""
        self._gauge: Gauge | None = None
        self._env_notes: list[str] = []
        self.told: list[str] = []
        """What else the report should tell of the target."""

    def open(self) -> TrainLoop:
        """The loop as it is."""
        loop = self._open(self.config)
        session = loop.ours.session
        self._engine = session.algo.engines.name
        self._refusal = session.algo.engines.refusal
        self._env_notes = list(getattr(session.env, "notes", ()))
        self._gauge = Gauge(session.algo.flops(self.num_envs), on_cpu=session.device.type == "cpu")
        return loop

    def open_with(self, changes: Changes) -> TrainLoop:
        """The loop of the config with other settings."""
        return self._open(changed(self.config, changes))

    def notes(self) -> list[str]:
        """The engine in use, and what the environments said."""
        reason = f" ({self._refusal})" if self._refusal else ""
        return [f"engine {self._engine}{reason}", *self._env_notes, *self.told]

    def machine_fraction(self, seen: Observation) -> float | None:
        """Arithmetic per CPU second over the machine's best."""
        if self._gauge is None or not seen.settled:
            return None
        effort = self._gauge.effort(
            steps=sum(stretch.turn.steps for stretch in seen.settled),
            updates=sum(stretch.turn.updates for stretch in seen.settled),
            cpu_s=sum(stretch.turn.cpu_s for stretch in seen.settled),
        )
        return effort.machine_fraction

    def experiments(self, seen: Observation) -> list[Experiment | Skipped]:
        """All that apply, those that could change most first."""
        learning = seen.own_share("update") + seen.own_share("act")
        if learning < SMALL_SHARE:
            why = f"computing the networks takes {100 * learning:.1f} % of the time"
            of_learning: list[Experiment | Skipped] = [
                Skipped(name, question, why)
                for name, question in (
                    ("engine", "Would the other engine be faster?"),
                    ("ratio", "How much faster with fewer updates?"),
                    ("batch size", "Would larger batches on as many samples help?"),
                )
            ]
        else:
            of_learning = [*self._engines(), *self._ratios(), *self._batches(seen)]
        return [
            *of_learning,
            *self._backends(),
            *self._threads(),
            *self._env_counts(),
            *self._pushes(),
            *self._records(seen),
            *self._observations(),
            *self._devices(),
            self._young(),
        ]

    def _open(self, config: TrainConfig, *alter: Alter) -> TrainLoop:
        return TrainLoop(config, [*self._alter, *alter])

    def _try(
        self, name: str, question: str, cause: str, changes: Changes, **more: Any
    ) -> Experiment:
        config = changed(self.config, changes)
        return Experiment(
            name=name,
            question=question,
            cause=cause,
            change=as_flags(changes),
            open=lambda: self._open(config),
            changes=dict(changes),
            **more,
        )

    def _young(self) -> Experiment:
        return Experiment(
            name="just begun",
            question="Is it slower than when it began?",
            cause="growth",
            change="the same loop, just begun",
            open=lambda: self._open(self.config),
            worth=1.1,
        )

    def _engines(self) -> Iterator[Experiment | Skipped]:
        question = "Would the other engine be faster?"
        if self._refusal:
            yield Skipped("engine", question, f"only torch can compute this: {self._refusal}")
            return
        if self.config.overlap:
            yield Skipped("engine", question, "--overlap needs the fused engine")
            return
        other = "torch" if self._engine == "fused" else "fused"
        # Where the choice is left to the warm-up, the better one was chosen: see its note.
        if self.config.engine == "auto" and other == "torch":
            yield Skipped("engine", question, "the warm-up has timed both and taken fused")
            return
        yield self._try("engine", question, "engine", {"engine": other})

    def _ratios(self) -> Iterator[Experiment | Skipped]:
        algo = self.config.algo_config
        if self.config.overlap:
            yield Skipped("no updates", "How much is learning?", "learning overlaps collecting")
        else:
            yield Experiment(
                name="no updates",
                question="How fast would it be without learning?",
                cause="updates",
                change="no updates at all",
                open=lambda: self._open(self.config, without_updates),
                alters="nothing is learnt",
                worth=None,
            )
        if isinstance(algo, DQNConfig):
            yield from self._smaller_ratios(algo)
        elif isinstance(algo, OnPolicyConfig) and algo.epochs > 1:
            fewer = {"algo_config.epochs": algo.epochs // 2}
            yield self._try(
                "half the epochs",
                "Would fewer passes over a rollout help?",
                "updates",
                fewer,
                alters=RATIO,
                worth=1.1 if algo.epochs > 10 else None,
            )

    def _smaller_ratios(self, algo: DQNConfig) -> Iterator[Experiment]:
        worth = 1.1 if algo.ratio > MUCH_LEARNING else None
        asked = {"half the ratio": algo.ratio / 2, "quarter of the ratio": algo.ratio / 4}
        if worth is not None:
            asked["the usual ratio"] = USUAL_RATIO
        for name, ratio in asked.items():
            yield self._try(
                name,
                f"How much faster with {name}?",
                "updates",
                {"algo_config.train_steps_ratio": ratio},
                alters=RATIO,
                worth=worth,
            )

    def _batches(self, seen: Observation) -> Iterator[Experiment | Skipped]:
        algo = self.config.algo_config
        question = "Would larger batches on as many samples help?"
        fraction = self.machine_fraction(seen)
        context = "" if fraction is None else f"{100 * fraction:.0f} % of this machine is used"
        if isinstance(algo, DQNConfig):
            times = max(4, 128 // algo.batch_size)
            changes = {
                "algo_config.batch_size": algo.batch_size * times,
                "algo_config.train_steps_ratio": algo.ratio / times,
            }
            small = algo.batch_size < SMALL_BATCH
        else:
            size = min(algo.minibatch_size, self.num_envs * algo.update_steps)
            changes = {"algo_config.minibatch_size": size * 4}
            small = size < 4 * SMALL_BATCH
            if size * 4 > self.num_envs * algo.update_steps:
                yield Skipped("batch size", question, "a rollout is no more than a few minibatches")
                return
        yield self._try(
            "batch size",
            question,
            "small-batch",
            changes,
            alters=BATCH,
            worth=1.2 if small else None,
            context=context,
        )

    def _backends(self) -> Iterator[Experiment | Skipped]:
        settings, question = self.config.env_config, "Would another backend step faster?"
        if not isinstance(settings, GymConfig):
            why = "native environments are stepped in compiled code, in this process"
            yield Skipped("backend", question, why)
            return
        costs = measure(EnvRecipe(self.config.env.removeprefix("gym:"), settings))
        told = f"a step takes {1e6 * costs.mean:.0f} us and varies by {100 * costs.spread:.0f} %"
        now = self._backend(settings)
        for backend in ("sync", "process", "async"):
            if backend != now:
                yield self._try(
                    f"backend {backend}",
                    f"Would --backend {backend} help?",
                    _backend_cause(backend, costs),
                    {"env_config.backend": backend},
                    context=told,
                )

    def _backend(self, settings: GymConfig) -> str:
        """The backend in use; where it was left to us, the environments' note tells."""
        if settings.backend != "auto":
            return settings.backend
        told = " ".join(self._env_notes)
        return next((name for name in ("async", "process") if told.endswith(f"{name}.")), "sync")

    def _threads(self) -> Iterator[Experiment | Skipped]:
        now, cores = self.config.num_threads, num_cores()
        for count in sorted({1, cores} - {now}):
            yield self._try(
                f"{count} threads" if count > 1 else "one thread",
                f"Would {count} thread{'s' * (count > 1)} be faster than {now}?",
                "threads",
                {"threads": count},
            )
        if isinstance(self.config.algo_config, DQNConfig):
            yield from self._overlaps(cores)

    def _overlaps(self, cores: int) -> Iterator[Experiment | Skipped]:
        name, question = "overlap", "Would collecting and learning at the same time help?"
        if self.config.overlap:
            off = {"overlap": False}
            yield self._try("no overlap", "Would one thread do?", "overlap", off, alters=LAG)
        elif self._engine != "fused" or cores < 2:
            why = "needs the fused engine" if cores > 1 else "there is one core only"
            yield Skipped(name, question, why)
        else:
            on = {"overlap": True}
            yield self._try(name, question, "overlap", on, alters=LAG, worth=1.1)

    def _env_counts(self) -> Iterator[Experiment]:
        for name, times in (("1/8", 0.125), ("1/4", 0.25), ("x4", 4)):
            count = round(self.num_envs * times)
            changes = self._other_count(count)
            if changes is None:
                continue
            yield self._try(
                f"envs {name}",
                f"Would {count:,} environments be faster than {self.num_envs:,}?",
                "num-envs",
                changes,
                alters=ENVS,
                worth=1.15,
            )

    def _other_count(self, count: int) -> dict[str, Any] | None:
        """Settings for so many environments with rollouts as large; None if that cannot be."""
        algo = self.config.algo_config
        if not 1 <= count <= 65_536:
            return None
        changes: dict[str, Any] = {"num_envs": count}
        if isinstance(algo, OnPolicyConfig):
            steps, rest = divmod(self.num_envs * algo.update_steps, count)
            if rest or steps < 1:
                return None
            changes["algo_config.update_steps"] = steps
        return changes

    def _pushes(self) -> Iterator[Experiment | Skipped]:
        question = "What would pushing transitions one by one cost?"
        if not isinstance(self.config.algo_config, DQNConfig):
            yield Skipped("push", question, "rollouts are written in place, nothing is pushed")
        elif isinstance(self.config.env_config, GymConfig):
            yield Skipped("push", question, "asked of native environments only")
        else:
            yield Experiment(
                name="push one by one",
                question=question,
                cause="store",
                change="one transition at a time instead of one write per vector step",
                open=lambda: self._open(self.config, pushing_one_by_one),
                worth=None,
            )

    def _records(self, seen: Observation) -> Iterator[Experiment | Skipped]:
        share = seen.own_share("log") + seen.own_share("save")
        question = "What does logging cost?"
        if share < 0.01:
            yield Skipped("logging off", question, f"it takes {100 * share:.1f} % of the time")
        else:
            yield Experiment(
                name="logging off",
                question=question,
                cause=record_cause(seen)[0],
                change="--log-seconds 60",
                changes={"log_seconds": 60.0},
                open=lambda: self._open(self.config, without_logs),
            )
        seconds, steps = self.config.checkpoint_seconds, self.config.checkpoint_steps
        question = "What do checkpoints cost?"
        if steps or 0 < seconds < 10:
            yield self._try(
                "checkpoints off",
                question,
                "save",
                {"checkpoint_steps": 0, "checkpoint_seconds": 600.0},
            )
        else:
            yield Skipped("checkpoints off", question, "they are at least ten seconds apart")

    def _observations(self) -> Iterator[Experiment]:
        if getattr(self.config.env_config, "obs", None) in ("flood", "extended"):
            yield self._try(
                "plain features",
                "What does the flood fill cost?",
                "observation",
                {"env_config.obs": "features"},
                alters="the agent sees less",
                worth=None,
            )

    def _devices(self) -> Iterator[Experiment | Skipped]:
        found = [("cuda", torch.cuda.is_available()), ("mps", torch.backends.mps.is_available())]
        names = [name for name, there in found if there]
        if not names:
            yield Skipped("device", "Would an accelerator help?", "this machine has none")
        for name in names:
            other = "cpu" if self.config.device != "cpu" else name
            yield self._try("device", f"Would {other} be faster?", "device", {"device": other})
        question = "Would torch.compile help?"
        if self._engine == "fused":
            yield Skipped("compile", question, "the fused engine is compiled already")
        elif not self.config.compile:
            yield self._try("compile", question, "compile", {"compile": True})


def _backend_cause(backend: str, costs: Costs) -> str:
    """What it would mean if this backend helped: steps are slow, or uneven."""
    return "uneven-env" if backend == "async" and costs.spread > UNEVEN else "env"
