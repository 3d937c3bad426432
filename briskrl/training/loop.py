"""The training loop: train(config) and resume(run_dir)."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from briskrl.core.config import config_error, to_toml
from briskrl.core.errors import ConfigError, DivergedError, RunFolderError, StorageError
from briskrl.core.exit_watch import nothing_to_lose
from briskrl.core.registry import load_object
from briskrl.core.scratch_folder import is_scratch
from briskrl.envs.base import VecEnv
from briskrl.envs.external import GIVEN, adapt, build_like
from briskrl.training.config import TrainConfig
from briskrl.training.config_changes import check_unchanged, with_changes
from briskrl.training.hooks import (
    CheckpointHook,
    EvaluationHook,
    Hook,
    Interval,
    ReportHook,
    StopRequest,
)
from briskrl.training.pretrain import Pretrainer, pretrain
from briskrl.training.recorder import RunRecorder
from briskrl.training.replicas.resize import resize
from briskrl.training.reporter import Reporter, RunResult, SilentReporter, StopReason
from briskrl.training.resolve import complete, load_run_config
from briskrl.training.sinks.factory import check_sinks
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.atomic_files import storage_errors
from briskrl.training.storage.run_dir import RunDir, check_not_taken
from briskrl.training.trainer import Trainer
from briskrl.training.trust import check_trusted, modules_of_run
from briskrl.training.warm_start import load_networks
from briskrl.training.warmup import warm_up


def train(
    config: TrainConfig,
    *,
    env: Any = None,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
    start_from: str | Path | None = None,
) -> RunResult:
    """Start a new run in a new run folder and train to the end of its budget.

    Args:
        config: Settings; absent nested configs take their defaults.
        env: What to train on instead of the environment that the config names. A Gymnasium
            environment, its class, or a function that makes one: `config.num_envs` like it are made
            and stepped as `config.env_config`, a GymConfig, asks for. Or a vector environment: a
            VecEnv, a `gymnasium.vector.VectorEnv` or an EnvPool, which is closed at the end.
        reporter: Receives progress.
        hooks: Called between iterations, after the built-in ones; `briskrl.training.callbacks` has
            some. If one raises, the run is saved.
        start_from: A run folder whose policy the networks begin with.

    Raises:
        ConfigError: A setting cannot be used; nothing has been written.
        RunFolderError: The run folder exists already.
        StorageError: The run folder cannot be written at the beginning or at the end. In between,
            failed writes are reported, and training continues.
    """
    given = None if env is None else adapt(env)
    if env is not None:
        config = replace(config, env=GIVEN)
        if config.curriculum:
            raise ConfigError(
                "A curriculum changes settings of the environment, which an environment passed as "
                "env does not have."
            )
        if config.eval_every:
            raise ConfigError(
                "eval_every needs an environment that can be made a second time, not one that is "
                "passed as env. Call evaluate(run_dir, env=...) instead."
            )
    check_sinks(config.log)
    if given is not None:
        config = replace(config, env_config=None, num_envs=given.num_envs)
    config = complete(config)
    if config.replicas > 1:
        _check_own_envs(env)
        if start_from is not None:
            raise ConfigError("Replicas cannot start from the policy of another run.")
        return _replicas("train")(config, reporter=reporter, hooks=hooks)
    # A resume must use as many threads as the run did, also on a machine with other cores.
    config = replace(config, threads=config.num_threads)
    note = (reporter or SilentReporter()).on_note
    path = None if config.run_dir is None else Path(config.run_dir)
    if path is not None:
        check_not_taken(path)
    if env is not None and given is None:
        given = build_like(env, config.num_envs, config.env_config)
    # Building the trainer first reports all errors in the config before anything is written.
    with (
        closing(_started(Trainer(config, given, note), start_from)) as trainer,
        RunDir.create(
            path, env=config.env, algo=config.algo, seed=config.seed, config_toml=to_toml(config)
        ) as folder,
    ):
        if start_from is not None:
            folder.record({"start_from": str(start_from)})
        return run_trainer(trainer, folder, reporter or SilentReporter(), hooks, resumed=False)


def resume(
    run_dir: str | Path,
    *,
    env: Any = None,
    steps: int | None = None,
    engine: Literal["auto", "fused", "torch"] | None = None,
    algo_config: Mapping[str, Any] | None = None,
    replicas: int | None = None,
    trust: bool = False,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
) -> RunResult:
    """Continue a run from its newest valid checkpoint, bit-identical to an uninterrupted run.

    Args:
        run_dir: The run folder.
        env: The environment, if the run was started with one.
        steps: A new total budget of transitions, to train a finished run further.
        engine: The engine to continue with; switching engines changes the rounding.
        algo_config: Settings of the algorithm that change from now on: those that do not decide
            what is saved, such as {"lr": 1e-4}. meta.json records them.
        replicas: Processes to continue with; the result differs from that of the number before.
        trust: Import the modules that the run names even if other users can change its folder.
        reporter: Receives progress.
        hooks: Called between iterations, after the built-in ones.

    Raises:
        RunFolderError: There is no run or no usable checkpoint, or another process writes to it.
        ConfigError: The run has already reached its budget, its config.toml has changed in a way
            that does not fit the saved state, or it names modules and is not trusted.
        StorageError: The run folder cannot be written at the beginning or at the end.
    """
    with opened_run(run_dir, steps=steps, engine=engine, replicas=replicas, trust=trust) as (
        folder,
        config,
    ):
        config = with_changes(config, algo_config or {})
        if config.replicas > 1:
            _check_own_envs(env)
            return _replicas("resume")(config, folder, reporter=reporter, hooks=hooks)
        note = (reporter or SilentReporter()).on_note
        with closing(Trainer(config, _given(env, config), note)) as trainer:
            # The trainer has reported all errors in the config before anything is written.
            if changed := resize(folder, config):
                note(changed)
            return run_trainer(trainer, folder, reporter or SilentReporter(), hooks, resumed=True)


@contextmanager
def opened_run(
    run_dir: str | Path,
    *,
    steps: int | None = None,
    engine: Literal["auto", "fused", "torch"] | None = None,
    replicas: int | None = None,
    trust: bool = False,
) -> Iterator[tuple[RunDir, TrainConfig]]:
    """The folder of a run, locked while entered, and the settings to continue it; see `resume`."""
    with RunDir.open(Path(run_dir)).lock() as folder:
        folder.check_checkpoints()
        config = load_run_config(folder.config_path)
        check_trusted([folder.path, folder.config_path], modules_of_run(config), trust=trust)
        recorded = folder.read_meta().get("config")
        if isinstance(recorded, dict):
            check_unchanged(config, recorded, folder.config_path)
        if steps is not None:
            config = replace(config, steps=steps)
        if engine is not None:
            config = replace(config, engine=engine)
        if replicas is not None:
            config = replace(config, replicas=replicas)
            if problems := config.check():
                raise config_error(problems)
        yield folder, config


def _replicas(name: str) -> Callable[..., RunResult]:
    """A function of the package for runs in several processes, which is above this one."""
    found: Callable[..., RunResult] = load_object(f"briskrl.cluster.replicas.run:{name}")
    return found


def _check_own_envs(env: Any) -> None:
    """Check that replicas can make their environments themselves.

    Raises:
        ConfigError: They were passed by the caller.
    """
    if env is not None:
        raise ConfigError("Replicas make their environments themselves; name them in the config.")


def _started(trainer: Trainer, start_from: str | Path | None) -> Trainer:
    """The trainer, with the networks of another run if there is one to start from."""
    if start_from is not None:
        try:
            load_networks(trainer.algo, start_from)
        except BaseException:
            trainer.close()
            raise
    return trainer


def _given(env: Any, config: TrainConfig) -> VecEnv | None:
    """The environment that the caller has passed in; None if there is none."""
    if env is None:
        return None
    return adapt(env) or build_like(env, config.num_envs, config.env_config)


def run_trainer(
    trainer: Trainer,
    folder: RunDir,
    reporter: Reporter,
    hooks: Sequence[Hook] = (),
    *,
    resumed: bool,
    stop: StopRequest | None = None,
) -> RunResult:
    """Train until the trainer is done, with checkpoints and logs in a run folder.

    Args:
        trainer: A new trainer; the caller closes it.
        folder: The run folder, which the caller has locked.
        reporter: Receives progress.
        hooks: Called between iterations, after the built-in ones.
        resumed: Continue from the newest checkpoint, or from the beginning if there is none.
        stop: Asks training to save and end; by default signals do.

    Raises:
        RunFolderError: There is no usable checkpoint.
        ConfigError: The checkpoint is that of a trainer that is done.
        StorageError: The run folder cannot be written at the beginning or at the end.
    """
    config = trainer.config
    recorder = RunRecorder(trainer, folder, reporter)
    built_in: list[Hook] = [
        ReportHook(config.log_seconds),
        # Before checkpoints, which hold what it found.
        EvaluationHook(),
        CheckpointHook(steps=config.checkpoint_steps, seconds=config.checkpoint_seconds),
    ]
    # A resume that fails before training begins leaves the records of the run as they were.
    begun = not resumed
    try:
        with StopRequest() if stop is None else nullcontext(stop) as asked:
            with nothing_to_lose(_restart_note(folder)):
                _prepare(recorder, resumed=resumed)
            begun = True
            stopped = _pretrain(recorder, asked) or _iterate(recorder, [*built_in, *hooks], asked)
            recorder.report()
            if trainer.pretrained:
                recorder.save_last()
            result = recorder.finish(stopped)
    except BaseException as error:
        if begun:
            with suppress(StorageError, RunFolderError):
                folder.end_session(f"failed: {type(error).__name__}")
        if isinstance(error, DivergedError):
            raise recorder.dump_diverged(error) from error
        raise
    finally:
        recorder.close()
    reporter.on_end(result)
    return result


def _prepare(recorder: RunRecorder, *, resumed: bool) -> None:
    trainer, config = recorder.trainer, recorder.trainer.config
    recorder.report_start(resumed=resumed)
    seconds = 0.0
    if config.warmup:
        # A resumed run keeps its engine, even if another one is faster on this machine.
        seconds = warm_up(trainer, choose=not resumed) + recorder.calibrate()
    else:
        trainer.start()
    recorder.reporter.on_warmup(seconds)
    if resumed:
        recorder.load()
        if recorder.evaluation.is_target_reached:
            raise ConfigError(
                f"The run in {recorder.folder.path} has reached {config.stop_at} after "
                f"{trainer.counters.env_steps:,} steps. To train it further, change or remove "
                f"stop_at in {recorder.folder.config_path}."
            )
        if trainer.is_done:
            raise ConfigError(
                f"The run in {recorder.folder.path} has reached its budget "
                f"({trainer.counters.env_steps:,} steps). Train it further with: "
                f"brisk resume {recorder.folder.path} --steps {2 * trainer.counters.env_steps}"
            )
        with storage_errors(f"write {recorder.folder.config_path}"):
            replace_file(recorder.folder.config_path, to_toml(config).encode())
    recorder.reporter.on_note(trainer.engine_note)
    recorder.begin(seconds)


def _pretrain(recorder: RunRecorder, stop: StopRequest) -> StopReason | None:
    """Imitate a teacher if the config asks for it; returns why it was stopped, if it was."""
    trainer = recorder.trainer
    if trainer.pretrained or stop.requested is not None:
        return stop.requested
    saves = Interval(trainer.config.checkpoint_seconds)
    with ExitStack() as beginning:
        if trainer.pretraining is None:
            beginning.enter_context(nothing_to_lose(_restart_note(recorder.folder)))

        def between(pretrainer: Pretrainer) -> bool:
            beginning.close()
            if stop.requested is not None:
                recorder.save_last(pretrainer.state())
            elif saves.has_passed():
                recorder.save(pretrainer.state())
                saves.restart()
            return stop.requested is None

        pretrain(trainer, note=recorder.reporter.on_note, between=between)
    if trainer.pretrained:
        recorder.save()
    return stop.requested


def _restart_note(folder: RunDir) -> str:
    if is_scratch(folder.path):
        return ""
    return f"Nothing was lost; to start again: brisk resume {shlex.quote(str(folder.path))}"


def _iterate(recorder: RunRecorder, hooks: Sequence[Hook], stop: StopRequest) -> StopReason:
    trainer = recorder.trainer
    while not trainer.is_done:
        ended = trainer.iterate()
        recorder.record(ended)
        _call(hooks, recorder)
        if recorder.evaluation.is_target_reached:
            break
        if recorder.stop_requested and not trainer.is_done:
            return "callback"
        if stop.requested is not None and not trainer.is_done:
            return stop.requested
    # A signal in the last iteration leaves nothing to resume.
    return "finished"


def _call(hooks: Sequence[Hook], recorder: RunRecorder) -> None:
    """Call the hooks; if one fails, what was trained is saved first."""
    try:
        for hook in hooks:
            hook(recorder)
    except Exception:
        with suppress(StorageError):
            recorder.save_last()
        raise
