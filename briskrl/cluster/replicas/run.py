"""Train and resume runs with replicas: attempts, one after the other, until one ends the run.

`briskrl.train` and `briskrl.resume` come here for runs with more than one replica.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, Protocol

from briskrl.cluster.replicas.local_processes import LocalProcesses
from briskrl.cluster.replicas.watch import RunWatch
from briskrl.cluster.settings import ExecutorConfig, check_for_replicas
from briskrl.core.config import to_toml
from briskrl.core.cpu import usable_cores
from briskrl.core.errors import BriskError, ConfigError
from briskrl.core.exit_watch import nothing_to_lose
from briskrl.core.registry import load_object
from briskrl.core.scratch_folder import ScratchFolder
from briskrl.training.config import TrainConfig
from briskrl.training.hooks import Hook, StopRequest
from briskrl.training.loop import opened_run
from briskrl.training.replicas.resize import resize
from briskrl.training.reporter import Reporter, RunResult, SilentReporter, StopSignal
from briskrl.training.storage.checkpoint import LATEST
from briskrl.training.storage.run_dir import RunDir, check_not_taken

OpenFolder = Callable[[], RunDir]
_FOREVER_S = 1e6


def train(
    config: TrainConfig,
    *,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
    settings: ExecutorConfig | None = None,
) -> RunResult:
    """Start a new run; see `briskrl.train`.

    Args:
        config: Complete settings.
        reporter: Receives progress.
        hooks: Must be empty, because the replicas are other processes.
        settings: Where the replicas run, and what happens if one is lost.
    """
    check_no_hooks(hooks)
    threads = config.threads
    if threads == "auto":
        threads = max(1, usable_cores() // config.replicas)
    # A resume must use as many threads as the run did, also on a machine with other cores.
    config = replace(config, threads=threads)
    path = None if config.run_dir is None else Path(config.run_dir)
    if path is not None:
        check_not_taken(path)
    with ExitStack() as stack:

        @cache
        def create() -> RunDir:
            return stack.enter_context(
                RunDir.create(
                    path,
                    env=config.env,
                    algo=config.algo,
                    seed=config.seed,
                    config_toml=to_toml(config),
                )
            )

        return _run(config, create, reporter, settings, resumed=False)


def resume(
    config: TrainConfig,
    folder: RunDir,
    *,
    reporter: Reporter | None = None,
    hooks: Sequence[Hook] = (),
    settings: ExecutorConfig | None = None,
) -> RunResult:
    """Continue a run whose folder is locked; see `briskrl.resume`."""
    check_no_hooks(hooks)
    return _run(config, lambda: folder, reporter, settings, resumed=True)


def resume_run(
    run_dir: Path,
    settings: ExecutorConfig,
    *,
    steps: int | None = None,
    engine: Literal["auto", "fused", "torch"] | None = None,
    replicas: int | None = None,
    trust: bool = False,
    reporter: Reporter | None = None,
) -> RunResult:
    """Continue the run in a folder where the settings say.

    Raises:
        ConfigError: The settings are not for replicas, or the run has none.
    """
    check_for_replicas(settings)
    with opened_run(run_dir, steps=steps, engine=engine, replicas=replicas, trust=trust) as (
        folder,
        config,
    ):
        if config.replicas == 1:
            raise ConfigError(
                f"The run in {folder.path} has one replica, which is resumed on this machine; "
                "leave out the settings of executors, or add --replicas."
            )
        return resume(config, folder, reporter=reporter, settings=settings)


def check_no_hooks(hooks: Sequence[Hook]) -> None:
    """Check that nothing is to be called in processes of their own.

    Raises:
        ConfigError: There are hooks.
    """
    if hooks:
        raise ConfigError(
            "Replicas are processes of their own, in which nothing of this one can be called: "
            "hooks, sweeps and jobs are for runs with one replica."
        )


def _run(
    config: TrainConfig,
    open_folder: OpenFolder,
    reporter: Reporter | None,
    settings: ExecutorConfig | None,
    *,
    resumed: bool,
) -> RunResult:
    reporter, settings = reporter or SilentReporter(), settings or ExecutorConfig()
    if settings.min_replicas is not None and settings.min_replicas > config.replicas:
        raise ConfigError(
            f"--min-replicas {settings.min_replicas} is more than --replicas {config.replicas}."
        )
    run = _Run(config, open_folder, reporter, settings)
    with StopRequest() as stop:
        while (result := run.attempt(stop, resumed=resumed)) is None:
            resumed = True
    reporter.on_end(result)
    return result


class Processes(Protocol):
    """The replicas of an attempt, wherever they are."""

    fewer: int | None
    """Replicas for the next attempt, if there is no room for all of them any more."""

    def start(self, *, resumed: bool) -> None:
        """Start all of them."""
        ...

    def run(
        self,
        open_folder: OpenFolder,
        stop: Callable[[], StopSignal | None],
        begun: Callable[[], None],
    ) -> None:
        """Watch them until the attempt has ended."""
        ...

    def close(self) -> None:
        """End all of them; may be called twice."""
        ...


class _Run:
    """Attempts to train a run to its end."""

    def __init__(
        self,
        config: TrainConfig,
        open_folder: OpenFolder,
        reporter: Reporter,
        settings: ExecutorConfig,
    ) -> None:
        self._config = config
        self._open_folder = open_folder
        self._folder: RunDir | None = None
        self._reporter = reporter
        self._settings = settings
        self._watch = RunWatch(reporter, config.replicas)
        self._lost = 0
        self._saved = ""

    def attempt(self, stop: StopRequest, *, resumed: bool) -> RunResult | None:
        """Start the replicas and wait for their end; None if another attempt should follow.

        Raises:
            BriskError: The run cannot succeed, or too many attempts were lost.
        """
        watch = self._watch
        watch.restart(self._config.replicas)
        with ScratchFolder("brisk-replicas-") as scratch, ExitStack() as beginning:
            beginning.enter_context(nothing_to_lose(""))

            def opened() -> RunDir:
                self._folder = folder = self._open_folder()
                # Every replica has accepted the settings.
                if resumed and (changed := resize(folder, self._config)):
                    self._reporter.on_note(changed)
                note = f"Nothing was lost; to start again: {_resume_command(folder)}"
                beginning.enter_context(nothing_to_lose(note))
                return folder

            with closing(self._processes(Path(scratch, "meeting"))) as processes:
                processes.start(resumed=resumed)
                processes.run(opened, lambda: stop.requested, beginning.close)
        if watch.error is not None:
            raise watch.error
        if watch.result is not None:
            return watch.result
        if processes.fewer is not None:
            self._config = replace(self._config, replicas=processes.fewer)
        else:
            self._count_loss(stop)
        return None

    def _processes(self, meeting: Path) -> Processes:
        """The replicas of an attempt, not started yet."""
        if self._settings.executor == "ray":
            on_ray: Callable[..., Processes] = load_object(
                "briskrl.cluster.ray.replicas:RayReplicas"
            )
            return on_ray(self._config, self._watch, self._settings)
        timeout_s = self._settings.job_timeout or _FOREVER_S
        return LocalProcesses(self._config, self._watch, meeting, timeout_s)

    def _count_loss(self, stop: StopRequest) -> None:
        """Note why an attempt was lost.

        Raises:
            BriskError: Another attempt would not help, or is not wanted.
        """
        cause = _describe(self._watch.losses)
        folder = self._folder
        if folder is None:
            raise BriskError(f"{cause} before the run began.")
        saved = _newest_checkpoint(folder)
        self._lost = 1 if saved != self._saved else self._lost + 1
        self._saved = saved
        resume = f"Continue with: {_resume_command(folder)}"
        if stop.requested is not None:
            raise BriskError(f"{cause} before the run could be saved. {resume}")
        if self._lost > self._settings.retries:
            raise BriskError(f"{cause}, {self._lost} times without a new checkpoint. {resume}")
        self._reporter.on_note(f"{cause}; all replicas continue from the newest checkpoint")


def _describe(losses: dict[int, str]) -> str:
    """What has happened, from what the replicas have said; those that died say most."""
    dead = {rank: how for rank, how in losses.items() if how.startswith(("was ", "exited "))}
    rank, how = next(iter((dead or losses).items()))
    return f"Replica {rank} {how}" if dead else f"Replica {rank} has lost the others ({how})"


def _newest_checkpoint(folder: RunDir) -> str:
    with suppress(OSError):
        return (folder.checkpoints / LATEST).read_text()
    return ""


def _resume_command(folder: RunDir) -> str:
    return f"brisk resume {shlex.quote(str(folder.path))}"
