"""The training loop of replicas.

The first one runs `lead` and writes the run folder; the others run `follow`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from briskrl.algos.engines import EngineName
from briskrl.core.config import to_toml
from briskrl.core.errors import ConfigError, DivergedError, RunFolderError, StorageError
from briskrl.core.phase import Phase
from briskrl.nets.replica_group import ReplicaGroup
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import CheckpointHook, EvaluationHook, ReportHook
from briskrl.training.recorder import RunRecorder
from briskrl.training.replicas.exchange import Decision
from briskrl.training.replicas.rounds import Rounds
from briskrl.training.replicas.whole_run import WholeRun, serve
from briskrl.training.reporter import Reporter, RunResult, StopReason, StopSignal
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.atomic_files import storage_errors
from briskrl.training.storage.run_dir import RunDir
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


class Stop(Protocol):
    """Says whether to stop."""

    requested: StopSignal | None


@dataclass(frozen=True, slots=True)
class Setup:
    """How replicas begin, the same for all of them."""

    config: TrainConfig
    resumed: bool = False
    """Whether to continue from the newest checkpoint."""
    engine: EngineName | None = None
    """The engine that an earlier attempt has chosen by measuring; checkpoints name theirs."""


def lead(
    trainer: Trainer,
    group: ReplicaGroup,
    folder: RunDir,
    reporter: Reporter,
    stop: Stop,
    setup: Setup,
    *,
    begun: Callable[[], None] = lambda: None,
    saved: Callable[[], None] = lambda: None,
) -> RunResult:
    """Train as the first replica to the end of the budget, or until a stop is requested.

    Args:
        trainer: New; closed by the caller.
        group: The replicas.
        folder: The run folder, locked by the caller.
        reporter: Receives progress of the whole run.
        stop: Asked once per round.
        setup: How to begin.
        begun: Called when training begins.
        saved: Called after every save.

    Raises:
        ConfigError: The run has reached its budget already.
        ReplicasDifferError: The replicas have different networks.
        StorageError: The run folder cannot be written at the end.
    """
    whole = WholeRun(trainer, group)
    recorder = RunRecorder(trainer, folder, reporter, whole=whole)
    rounds = Rounds(trainer, group)
    # A resume that fails before training begins leaves the records of the run as they were.
    recording = not setup.resumed
    try:
        _prepare(recorder, rounds, whole, setup)
        recording = True
        begun()
        stopped = _train(recorder, rounds, whole, stop, saved)
        recorder.report()
        with whole.served():
            recorder.save_last()
        result = recorder.finish(stopped)
    except BaseException as error:
        if recording:
            with suppress(StorageError, RunFolderError):
                folder.end_session(f"failed: {type(error).__name__}")
        if isinstance(error, DivergedError):
            raise recorder.dump_diverged(error) from error
        raise
    finally:
        recorder.close()
    reporter.on_end(result)
    return result


def _prepare(recorder: RunRecorder, rounds: Rounds, whole: WholeRun, setup: Setup) -> None:
    trainer = recorder.trainer
    recorder.report_start(resumed=setup.resumed)
    seconds = recorder.calibrate() + _start(trainer, setup)
    recorder.reporter.on_warmup(seconds)
    if setup.resumed:
        with whole.served():
            recorder.load()
        if recorder.evaluation.is_target_reached:
            raise ConfigError(
                f"The run in {recorder.folder.path} has reached {setup.config.stop_at} after "
                f"{trainer.counters.env_steps:,} steps. To train it further, change or remove "
                f"stop_at in {recorder.folder.config_path}."
            )
        if rounds.is_done:
            raise ConfigError(
                f"The run in {recorder.folder.path} has reached its budget "
                f"({trainer.counters.env_steps:,} steps). Train it further with: "
                f"brisk resume {recorder.folder.path} --steps {2 * trainer.counters.env_steps}"
            )
        with storage_errors(f"write {recorder.folder.config_path}"):
            replace_file(recorder.folder.config_path, to_toml(trainer.config).encode())
    recorder.reporter.on_note(trainer.engine_note)
    recorder.begin(seconds)
    rounds.begin()


def _start(trainer: Trainer, setup: Setup) -> float:
    """Begin the first episodes; returns the seconds that the warm-up took."""
    seconds = 0.0
    if trainer.config.warmup:
        seconds = warm_up(trainer, choose=not setup.resumed)
    else:
        trainer.start()
    if setup.engine is not None:
        trainer.algo.engines.use(setup.engine)
    return seconds


def _train(
    recorder: RunRecorder,
    rounds: Rounds,
    whole: WholeRun,
    stop: Stop,
    saved: Callable[[], None],
) -> StopReason:
    trainer, config = recorder.trainer, recorder.trainer.config
    reports, evaluations = ReportHook(config.log_seconds), EvaluationHook()
    saves = CheckpointHook(steps=config.checkpoint_steps, seconds=config.checkpoint_seconds)
    while not rounds.is_done:
        found = rounds.run(lambda: Decision(saves.is_due(recorder), stop.requested))
        whole.add_cpu_of_others(found.cpu_s)
        recorder.record_all(found.ended)
        reports(recorder)
        evaluations(recorder)
        if found.decision.save:
            with trainer.timer[Phase.SAVE], whole.served():
                recorder.save()
                saved()
            saves.restart()
        if rounds.ends_early(reached=recorder.evaluation.is_target_reached):
            break
        if found.decision.stop is not None and not rounds.is_done:
            return found.decision.stop
    return "finished"


def follow(trainer: Trainer, group: ReplicaGroup, setup: Setup) -> None:
    """Train as one of the other replicas, as long as the first one does; see `lead`."""
    rounds = Rounds(trainer, group)
    _start(trainer, setup)
    if setup.resumed and serve(trainer, group) and not trainer.collector.is_exact:
        trainer.restart_envs()
    rounds.begin()
    while not rounds.is_done:
        decision = rounds.run(Decision).decision
        if decision.save:
            serve(trainer, group)
        if rounds.ends_early():
            break
        if decision.stop is not None:
            break
    serve(trainer, group)
