"""Jobs of a run: train under one workflow or many and evaluate, or evaluate alone.

The folder of a training job is a run folder, so `brisk play` and `brisk eval` work on it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from time import perf_counter, process_time

from briskrl import __version__
from briskrl.cluster.job import JobContext, JobStopped
from briskrl.cluster.life_signs import LifeSigns
from briskrl.cluster.run_job import RESULT, read_job_result
from briskrl.cluster.run_reports import JobReporter, PublishHook
from briskrl.cluster.storage import try_again
from briskrl.core.config import to_dict, to_toml
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.evaluate import load_policy
from briskrl.training.hooks import Hook, StopRequest
from briskrl.training.loop import run_trainer
from briskrl.training.recorder import RunRecorder
from briskrl.training.resolve import complete
from briskrl.training.storage.atomic_files import json_bytes, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.checkpoint import SavedRun, list_checkpoints, read_newest
from briskrl.training.storage.line_files import plain
from briskrl.training.storage.lock import FolderLockedError
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.storage.training_times import CLOCKS, read_metrics
from briskrl.training.workflow_players import PolicyPlayer, WorkflowPlayer
from briskrl.workflows.run.evaluation import evaluate_workflows
from briskrl.workflows.run.evaluation_plan import Evaluated, EvaluationPlan
from briskrl.workflows.run.stop_rules import judge_gate
from briskrl.workflows.run.trainer import STATE, ConditionedTrainer, Update
from briskrl.workflows.run.trainer_config import Course
from briskrl.workflows.run.weights import Start, policy_of, save_weights

PREFIX = "workflow:"
"""Of the names of environments with workflows."""
_LOCK_TRIES = 30
"""Seconds to wait for the process of a lost attempt, which the system may still be ending."""


@dataclass(frozen=True, slots=True)
class WorkflowJob:
    """Training in the job's folder, and an evaluation of its policy.

    It continues where an earlier attempt was lost. A job that has finished before returns the same
    result again. The result depends on the content of the job alone.
    """

    name: str
    config: TrainConfig
    """Settings of training; the episodes are those of `course`."""
    course: Course
    evaluation: EvaluationPlan | None = None
    start: Start | None = None
    """Weights to begin with; new ones if None."""
    about: Mapping[str, JSON] = field(default_factory=dict)
    """What the weights are for."""
    log_episodes: bool = False
    """Report a row per episode of training."""
    num_gpus: float = 0.0

    def __post_init__(self) -> None:
        config = complete(replace(self.config, episodes=self.course.cap, run_dir=None))
        object.__setattr__(self, "config", replace(config, threads=config.num_threads))

    @property
    def num_cpus(self) -> int:
        """Threads of training."""
        return self.config.num_threads

    def digest(self) -> str:
        """Identifies what the result depends on."""
        start = None
        if self.start is not None:
            start = [hashlib.sha256(self.start.data).hexdigest(), self.start.with_optimizer]
        evaluation = None if self.evaluation is None else asdict(self.evaluation)
        return _digest(self.config, [asdict(self.course), evaluation, start])

    def run(self, context: JobContext) -> dict[str, JSON]:
        """Train, or continue, and evaluate.

        Returns:
            stop_reason, train_episodes, env_steps, updates, counts (of the last rollouts of
            training, see `Gate`), pairs (of training), evaluations (see `Evaluated`),
            eval_episodes, wall_s and cpu_s of training, eval_s and eval_cpu_s, and briskrl.
        """
        return _run_once(self, context, lambda: self._train_and_evaluate(context))

    def _train_and_evaluate(self, context: JobContext) -> dict[str, JSON]:
        result = self._train(context)
        begin, cpu = perf_counter(), process_time()
        evaluations: list[JSON] = []
        if self.evaluation is not None:
            policy = load_policy(context.folder, trust=True).policy
            player = PolicyPlayer(policy, stochastic=not self.evaluation.greedy)
            found = _evaluate(player, self.config, self.evaluation, context)
            evaluations = [one.as_json() for one in found]
        return {
            **result,
            "evaluations": evaluations,
            "eval_episodes": 0 if self.evaluation is None else self.evaluation.total_episodes,
            "eval_s": perf_counter() - begin,
            "eval_cpu_s": process_time() - cpu,
            "briskrl": __version__,
        }

    def _train(self, context: JobContext) -> dict[str, JSON]:
        """Train from the newest checkpoint, or from the beginning if there is none.

        Raises:
            JobStopped: Training was asked to stop; a checkpoint is saved.
        """
        folder = _put_config(context.folder, self.config)
        with (
            _locked(folder),
            closing(
                ConditionedTrainer(self.config, self.course, start=self.start, about=self.about)
            ) as trainer,
        ):
            saved = _read_finished(folder)
            if saved is None:
                self._iterate(trainer, folder, context)
            else:
                trainer.start()
                trainer.load_state(saved.states, saved.counters)
            save_weights(context.folder, trainer.algo, self.about)
            return _training_record(trainer, context.folder)

    def _iterate(self, trainer: ConditionedTrainer, folder: RunDir, context: JobContext) -> None:

        own_process = context.should_stop is None
        stop = None if own_process else StopRequest()
        hooks: list[Hook] = [
            _UpdateHook(context, stop, log_episodes=self.log_episodes),
            PublishHook(context.publish),
        ]
        # Progress is reported per update, so the reporter gives signs of life only.
        reporter = JobReporter(lambda values: context.report({}))
        result = run_trainer(trainer, folder, reporter, hooks, resumed=True, stop=stop)
        if result.stopped != "finished":
            try_again(context.publish)
            raise JobStopped


@dataclass(frozen=True, slots=True)
class EvaluationJob:
    """An evaluation of trained policies, each under its own workflows."""

    name: str
    config: TrainConfig
    """Settings that the policies were trained with."""
    policies: tuple[bytes, ...]
    """Weights, see `save_weights`."""
    plans: tuple[EvaluationPlan, ...]
    """What each of them plays."""
    num_gpus: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", complete(replace(self.config, run_dir=None)))

    @property
    def num_cpus(self) -> int:
        """One."""
        return 1

    def digest(self) -> str:
        """Identifies what the result depends on."""
        policies = [hashlib.sha256(data).hexdigest() for data in self.policies]
        return _digest(self.config, [policies, [asdict(plan) for plan in self.plans]])

    def run(self, context: JobContext) -> dict[str, JSON]:
        """Evaluate.

        Returns:
            evaluations (see `Evaluated`), in order; eval_episodes, eval_s, eval_cpu_s,
            train_episodes (0), and briskrl.
        """
        return _run_once(self, context, lambda: self._evaluate(context))

    def _evaluate(self, context: JobContext) -> dict[str, JSON]:
        begin, cpu = perf_counter(), process_time()
        found: list[Evaluated] = []
        for data, plan in zip(self.policies, self.plans, strict=True):
            player = PolicyPlayer(policy_of(self.config, data), stochastic=not plan.greedy)
            found += _evaluate(player, self.config, plan, context)
        return {
            "evaluations": [one.as_json() for one in found],
            "train_episodes": 0,
            "eval_episodes": sum(plan.total_episodes for plan in self.plans),
            "eval_s": perf_counter() - begin,
            "eval_cpu_s": process_time() - cpu,
            "briskrl": __version__,
        }


class _UpdateHook:
    """Reports every update, and passes on the wish to stop."""

    def __init__(
        self, context: JobContext, stop: StopRequest | None, *, log_episodes: bool
    ) -> None:
        self._context = context
        self._stop = stop
        self._log_episodes = log_episodes
        self._alive = LifeSigns(context.report)

    def __call__(self, recorder: RunRecorder) -> None:
        """Report what is new."""
        trainer = recorder.trainer
        assert isinstance(trainer, ConditionedTrainer)
        for update in trainer.take_updates():
            self._context.report(update_values(update, with_episodes=self._log_episodes))
        self._alive()
        should_stop = self._context.should_stop
        if self._stop is not None and should_stop is not None and should_stop():
            self._stop.requested = "sigterm"


def update_values(update: Update, *, with_episodes: bool) -> dict[str, JSON]:
    """An update as a JSON object."""
    values: dict[str, JSON] = {
        "update": update.number,
        "counts": update.counts.as_json(),
        "macro_compliance": update.macro_compliance,
        "env_steps": update.env_steps,
        "total_episodes": update.total_episodes,
        "lambda": update.alignment_lambda,
        "figures": dict(update.figures),
    }
    if with_episodes:
        values["episodes"] = update.episodes
    return values


def _run_once(
    job: WorkflowJob | EvaluationJob, context: JobContext, work: Callable[[], dict[str, JSON]]
) -> dict[str, JSON]:
    """The result of the work; that of an earlier attempt if it had ended."""
    digest = job.digest()
    path = context.folder / RESULT
    finished = read_job_result(context.folder, digest)
    if finished is None:
        finished = plain(work())
        with storage_errors(f"write {path}"):
            replace_file(path, json_bytes({"job": digest, "result": finished}))
    try_again(context.publish)
    return finished


def _digest(config: TrainConfig, content: JSON) -> str:
    text = json.dumps([to_dict(config), content], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _evaluate(
    player: WorkflowPlayer, config: TrainConfig, plan: EvaluationPlan, context: JobContext
) -> list[Evaluated]:
    alive = LifeSigns(context.report)

    def after_step() -> None:
        alive()
        if context.should_stop is not None and context.should_stop():
            raise JobStopped

    task = config.env.removeprefix(PREFIX)
    return evaluate_workflows(player, task, config.env_config, plan, after_step=after_step)


def _put_config(folder: Path, config: TrainConfig) -> RunDir:
    """Make the folder that of a run with this config."""
    path = folder / "config.toml"
    if not path.exists():
        with storage_errors(f"write {path}"):
            replace_file(path, to_toml(config).encode())
    return RunDir.open(folder)


@contextmanager
def _locked(folder: RunDir) -> Iterator[None]:
    for left in reversed(range(_LOCK_TRIES)):
        try:
            folder.lock()
            break
        except FolderLockedError:
            if not left:
                raise
            time.sleep(1.0)
    try:
        yield
    finally:
        folder.close()


def _read_finished(folder: RunDir) -> SavedRun | None:
    """The newest checkpoint, if training had ended there."""
    if not list_checkpoints(folder.checkpoints):
        return None
    saved = read_newest(folder.checkpoints)
    state = saved.states.get(STATE)
    return saved if state is not None and state.scalars.get("reason") is not None else None


def _training_record(trainer: ConditionedTrainer, folder: Path) -> dict[str, JSON]:
    """What training has led to, and its times as far as they are logged."""
    course = trainer.course
    gate = judge_gate(trainer.updates, course.stop, course.threshold)
    times: dict[str, JSON] = dict.fromkeys(CLOCKS)
    metrics = folder / "metrics.jsonl"
    for row in read_metrics(metrics) if metrics.exists() else ():
        times = {name: row[name] for name in CLOCKS}
    return {
        "stop_reason": trainer.reason,
        "train_episodes": trainer.counters.episodes,
        "env_steps": trainer.counters.env_steps,
        "updates": len(trainer.updates),
        "counts": gate.counts.as_json(),
        "gate_passed": gate.passed,
        "lambda": trainer.workflow_env.alignment_lambda,
        "pairs": trainer.pairs.tolist(),
        **times,
    }
