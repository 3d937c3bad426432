"""The one training loop: train(config) and resume(run folder)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from briskrl.core.config import to_toml
from briskrl.core.errors import ConfigError, DivergedError, StorageError
from briskrl.envs.external import GIVEN, adapt
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import CheckpointHook, Hook, ReportHook, StopRequest
from briskrl.training.pretrain import pretrain
from briskrl.training.recorder import RunRecorder
from briskrl.training.reporter import Reporter, RunResult, SilentReporter, StopReason
from briskrl.training.resolve import complete, load_config
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.run_dir import RunDir, check_not_taken
from briskrl.training.trainer import Trainer
from briskrl.training.warmup import warm_up


def train(
    config: TrainConfig,
    *,
    env: Any = None,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
) -> RunResult:
    """Train from the beginning in a new run folder.

    Args:
        config: What to train; absent nested configs take their defaults.
        env: A vector environment made by the caller, to train on instead of the one the config
            names: one of ours, a `gymnasium.vector.VectorEnv` or an EnvPool. The run closes it.
        reporter: Who is told about progress.
        hooks: Called between iterations, after the run's own.

    Raises:
        ConfigError: Something in the config cannot be used; nothing has been written.
        RunFolderError: The run folder exists already.
    """
    given = None if env is None else adapt(env)
    if given is not None:
        if config.curriculum:
            raise ConfigError("A given environment has no settings that stages could change.")
        config = replace(config, env=GIVEN, env_config=None, num_envs=given.num_envs)
    config = complete(config)
    # A resume must have as many threads as the run had, on whatever machine.
    config = replace(config, threads=config.num_threads)
    path = None if config.run_dir is None else Path(config.run_dir)
    if path is not None:
        check_not_taken(path)
    # Whatever is wrong with the config shows here, before anything is written.
    with (
        closing(Trainer(config, given)) as trainer,
        RunDir.create(
            path, env=config.env, algo=config.algo, seed=config.seed, config_toml=to_toml(config)
        ) as folder,
    ):
        return _go(trainer, folder, reporter or SilentReporter(), hooks, resumed=False)


def resume(
    run_dir: str | Path,
    *,
    env: Any = None,
    steps: int | None = None,
    engine: Literal["auto", "fused", "torch"] | None = None,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
) -> RunResult:
    """Continue a run from its newest good checkpoint, to the same bits as if never stopped.

    Args:
        run_dir: The run folder.
        env: The vector environment again, if the run was given one.
        steps: A new budget of transitions in total, to train a finished run further.
        engine: Who computes from now on; another one than before rounds differently.
        reporter: Who is told about progress.
        hooks: Called between iterations, after the run's own.

    Raises:
        RunFolderError: No run, no usable checkpoint, or another process is writing.
        ConfigError: The run has already reached its budget.
    """
    with RunDir.open(Path(run_dir)).lock() as folder:
        config = load_config(folder.config_path)
        if steps is not None:
            config = replace(config, steps=steps)
        if engine is not None:
            config = replace(config, engine=engine)
        with closing(Trainer(config, None if env is None else adapt(env))) as trainer:
            return _go(trainer, folder, reporter or SilentReporter(), hooks, resumed=True)


def _go(
    trainer: Trainer, folder: RunDir, reporter: Reporter, hooks: Sequence[Hook], *, resumed: bool
) -> RunResult:
    config = trainer.config
    run = RunRecorder(trainer, folder, reporter)
    own: list[Hook] = [
        ReportHook(config.log_seconds),
        CheckpointHook(steps=config.checkpoint_steps, seconds=config.checkpoint_seconds),
    ]
    # A resume that is refused leaves the record of the run as it was.
    begun = not resumed
    try:
        with StopRequest() as stop:
            _prepare(run, resumed=resumed)
            begun = True
            stopped = _pretrain(run, stop) or _iterate(run, [*own, *hooks], stop)
            run.report()
            if trainer.pretrained:
                run.save()
            result = run.finish(stopped)
    except BaseException as error:
        if begun:
            with suppress(StorageError):
                folder.end_session(f"failed: {type(error).__name__}")
        if isinstance(error, DivergedError):
            raise run.dump_diverged(error) from error
        raise
    finally:
        run.close()
    reporter.on_end(result)
    return result


def _prepare(run: RunRecorder, *, resumed: bool) -> None:
    trainer, config = run.trainer, run.trainer.config
    run.report_start(resumed=resumed)
    seconds = 0.0
    if config.warmup:
        # A continued run goes on with the engine it had, whatever is the fastest today.
        seconds = warm_up(trainer, choose=not resumed) + run.calibrate()
    else:
        trainer.start()
    run.reporter.on_warmup(seconds)
    if resumed:
        run.load()
        if _is_done(trainer):
            raise ConfigError(
                f"The run in {run.folder.path} has reached its budget "
                f"({trainer.counters.env_steps:,} steps). Train it further with: "
                f"brisk resume {run.folder.path} --steps {2 * trainer.counters.env_steps}"
            )
        replace_file(run.folder.config_path, to_toml(config).encode())
    run.reporter.on_note(trainer.engine_note)
    run.begin(seconds)


def _pretrain(run: RunRecorder, stop: StopRequest) -> StopReason | None:
    """Learn from a teacher, if one is wanted; returns why it was given up, if it was."""
    trainer = run.trainer
    if trainer.pretrained:
        return None
    pretrain(trainer, note=run.reporter.on_note, stops=lambda: stop.requested is not None)
    # Half of it cannot be continued exactly; without a checkpoint a resume begins again.
    if trainer.pretrained:
        run.save()
    return stop.requested


def _iterate(run: RunRecorder, hooks: Sequence[Hook], stop: StopRequest) -> StopReason:
    trainer = run.trainer
    while not _is_done(trainer):
        ended = trainer.iterate()
        run.record(ended)
        for hook in hooks:
            hook(run)
        if stop.requested is not None:
            return stop.requested
    return "finished"


def _is_done(trainer: Trainer) -> bool:
    counters = trainer.counters
    return trainer.config.budget.is_spent(counters.env_steps, counters.episodes)
