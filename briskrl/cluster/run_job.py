"""A job that is a training run with an evaluation of its policy at the end."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from briskrl import __version__
from briskrl.cluster.job import JobContext, JobStopped
from briskrl.cluster.life_signs import LifeSigns
from briskrl.cluster.milestones import MilestoneHook
from briskrl.cluster.run_reports import JobReporter, PublishHook
from briskrl.cluster.storage import try_again
from briskrl.core.config import changeable_fields, to_dict, to_toml
from briskrl.core.errors import ConfigError
from briskrl.core.types import JSON, State
from briskrl.training.config import TrainConfig
from briskrl.training.config_changes import list_changes
from briskrl.training.recent_episodes import RecentEpisodes
from briskrl.training.resolve import TABLES, complete, load_run_config
from briskrl.training.storage.atomic_files import json_bytes, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.line_files import plain
from briskrl.training.storage.lock import FolderLockedError
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.strict_json import read_json
from briskrl.training.storage.training_times import CLOCKS, read_metrics

if TYPE_CHECKING:
    from briskrl.training.hooks import Hook
    from briskrl.training.reporter import RunResult
    from briskrl.training.storage.checkpoint import SavedRun

RESULT = "result.json"
"""File of a job's folder with its result."""
_INTERVAL_95 = 1.96
"""Half the width of a 95 % interval of a mean, in standard errors."""
_RECORDS = frozenset(
    {
        *("run_dir", "warmup", "log_seconds", "tensorboard", "log", "tags"),
        *("checkpoint_steps", "checkpoint_seconds", "keep_checkpoints"),
    }
)
"""Settings that do not change what a run learns."""
_LOCK_TRIES = 30
"""Seconds to wait for the process of a lost attempt, which the system may still be ending."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How the policy of a finished run is evaluated."""

    episodes: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RunJob:
    """A training run in the job's folder, and an evaluation of its policy.

    The run continues where an earlier attempt was lost. A job that has finished before returns the
    same result again, without training. Engine `auto` means the fused engine wherever it can be
    used, because a choice by speed would depend on the machine; `auto` threads are those of the
    machine that makes the job. Device `cuda` needs a GPU, also if `num_gpus` is 0.
    """

    name: str
    config: TrainConfig
    evaluation: Evaluation = Evaluation()
    num_gpus: float = 0.0
    milestones: int = 0
    """Equal parts of the budget after each of which the run reports its scores; they do not change
    the result."""

    def __post_init__(self) -> None:
        config = complete(self.config)
        if config.replicas > 1:
            raise ConfigError(
                f"The job {self.name} has {config.replicas} replicas, but a job is one process."
            )
        config = replace(config, threads=config.num_threads, run_dir=None)
        object.__setattr__(self, "config", config)
        if config.device == "cuda":
            object.__setattr__(self, "num_gpus", self.num_gpus or 1.0)

    @classmethod
    def in_folder(cls, folder: Path, evaluation: Evaluation | None = None) -> RunJob:
        """A job that continues the run in `folder`; its storage is the folder above it.

        Raises:
            RunFolderError: There is no run in the folder.
        """
        config = load_run_config(RunDir.open(folder).config_path)
        return cls(folder.name, config, evaluation or Evaluation())

    @property
    def num_cpus(self) -> int:
        """Threads of the run; one more if it collects and learns at the same time."""
        return self.config.num_threads + self.config.overlap

    def run(self, context: JobContext) -> dict[str, JSON]:
        """Train, or continue, and evaluate.

        Returns:
            env_steps, episodes, updates, wall_s, cpu_s, steps_per_s, mean_return and mean_score of
            training (times without lost attempts and warm-up); score with score_low and score_high
            (a 95 % interval), return and eval_episodes of the evaluation; model_sha256, stopped
            and briskrl. None for what is not known.
        """
        path = context.folder / RESULT
        finished = read_job_result(context.folder, self._digest())
        if finished is None:
            finished = plain(self._train_and_evaluate(context))
            content = {"job": self._digest(), "result": finished}
            with storage_errors(f"write {path}"):
                replace_file(path, json_bytes(content))
        try_again(context.publish)
        return finished

    def _train_and_evaluate(self, context: JobContext) -> dict[str, JSON]:
        self._put_config(context.folder)
        saved = _read_finished(context.folder, self.config)
        if saved is None:
            _train(context, self.milestones)
            saved = _read_finished(context.folder, self.config)
            assert saved is not None
        return {
            **_training_record(context.folder, saved),
            **_evaluate(context, self.evaluation),
            "model_sha256": _hash_model(context.folder),
            "stopped": "finished",
            "briskrl": __version__,
        }

    def _digest(self) -> str:
        """Identifies what the result depends on."""
        content = {"config": _learned(self.config), "evaluation": asdict(self.evaluation)}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def _put_config(self, folder: Path) -> None:
        """Make the folder that of a run with this config.

        Raises:
            ConfigError: It is that of another run.
        """
        path = folder / "config.toml"
        if path.exists():
            changes = _list_changes(self.config, load_run_config(path))
            if changes:
                raise ConfigError(
                    f"There is a run with other settings in {folder}: {', '.join(changes)}. Use "
                    "another folder, or remove that run."
                )
        with storage_errors(f"write {path}"):
            replace_file(path, to_toml(self.config).encode())


def _learned(config: TrainConfig) -> dict[str, JSON]:
    """The settings that what a run learns depends on."""
    return {name: value for name, value in to_dict(config).items() if name not in _RECORDS}


def _list_changes(config: TrainConfig, before: TrainConfig) -> list[str]:
    """What a run with these settings learns in another way, one clause each.

    More than a resume refuses: a longer run of the same folder would be another job's result.
    """
    names = sorted(TrainConfig.RESUME_MAY_CHANGE - _RECORDS)
    own = list(_differences(_learned(config), _learned(before), names))
    for table in TABLES:
        nested, old = getattr(config, table), getattr(before, table)
        # The settings of another environment or algorithm have nothing in common with these.
        if type(nested) is type(old):
            fields = sorted(changeable_fields(type(nested)))
            own += _differences(to_dict(nested), to_dict(old), fields, f"{table}.")
    return [*own, *list_changes(config, to_dict(before))]


def _differences(
    now: Mapping[str, JSON], then: Mapping[str, JSON], names: Sequence[str], prefix: str = ""
) -> Iterator[str]:
    for name in names:
        if now.get(name) != then.get(name):
            yield f"{prefix}{name} = {now.get(name)!r} (was {then.get(name)!r})"


def _train(context: JobContext, milestones: int) -> None:
    """Train from the newest checkpoint, or from the beginning if there is none.

    Raises:
        JobStopped: A signal has stopped training; a checkpoint is saved.
    """
    if _resume(context, milestones).stopped != "finished":
        try_again(context.publish)
        raise JobStopped


def _resume(context: JobContext, milestones: int) -> RunResult:
    from briskrl.training.loop import resume

    hooks: list[Hook] = [
        PublishHook(context.publish),
        LifeSigns(context.report),
        MilestoneHook(context.report, milestones),
    ]
    for left in reversed(range(_LOCK_TRIES)):
        try:
            # A run that has only a config starts from the beginning, and does not choose its engine
            # by measuring. The modules that its config names come from the job, so are trusted.
            reporter = JobReporter(context.report)
            return resume(context.folder, trust=True, reporter=reporter, hooks=hooks)
        except FolderLockedError:
            if not left:
                raise
            time.sleep(1.0)
    raise AssertionError("unreachable")


def _read_finished(folder: Path, config: TrainConfig) -> SavedRun | None:
    """The newest checkpoint, if it is that of a run that has spent its budget."""
    from briskrl.training.storage.checkpoint import list_checkpoints, read_newest

    checkpoints = RunDir(folder).checkpoints
    if not list_checkpoints(checkpoints):
        return None
    saved = read_newest(checkpoints)
    pretrained = saved.states["bookkeeping"].scalars.get("pretrained", True)
    counters = saved.counters
    spent = config.budget.is_spent(counters["env_steps"], counters["episodes"])
    return saved if pretrained and spent else None


def _training_record(folder: Path, saved: SavedRun) -> dict[str, JSON]:
    """Counters and means at the end of training, and its times as far as they are logged.

    The last row of the metrics is written after the last checkpoint if that is due by steps, so a
    run that was killed in between does not have it.
    """
    logs, recent = saved.states["logs"], RecentEpisodes()
    recent.load_state(State(logs.arrays, logs.scalars["recent"]))
    times: dict[str, JSON] = dict.fromkeys(CLOCKS)
    metrics = folder / "metrics.jsonl"
    for row in read_metrics(metrics) if metrics.exists() else ():
        times = {name: row[name] for name in CLOCKS}
    steps, wall_s = saved.counters["env_steps"], times["wall_s"]
    return {
        **{name: saved.counters[name] for name in ("env_steps", "episodes", "updates")},
        "mean_return": recent.mean_return,
        "mean_score": recent.mean_score,
        **times,
        "steps_per_s": steps / wall_s if wall_s else None,
    }


def _evaluate(context: JobContext, evaluation: Evaluation) -> dict[str, JSON]:
    from briskrl.training.evaluate import load_policy, play_games

    games = play_games(
        load_policy(context.folder, trust=True),
        episodes=evaluation.episodes,
        seed=evaluation.seed,
        after_step=LifeSigns(context.report),
    )
    score, count = float(games.score.mean()), evaluation.episodes
    error = float(games.score.std(ddof=1)) / math.sqrt(count) if count > 1 else math.nan
    return {
        "score": score,
        "score_low": score - _INTERVAL_95 * error,
        "score_high": score + _INTERVAL_95 * error,
        "return": float(games.returns.mean()),
        "eval_episodes": count,
    }


def _hash_model(folder: Path) -> str:
    with (RunDir(folder).policy / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_job_result(folder: Path, digest: str | None = None) -> dict[str, JSON] | None:
    """The result of the job in a folder; None if it has not ended, or is another than `digest`."""
    try:
        content = read_json(folder / RESULT)
    except (OSError, ValueError):
        return None
    if not isinstance(content, Mapping) or digest not in (None, content.get("job")):
        return None
    found = content.get("result")
    return found if isinstance(found, dict) else None
