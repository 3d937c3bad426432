"""Begin, continue and read sweeps."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

from briskrl import __version__
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.cluster.storage import is_url
from briskrl.cluster.sweep.driver import Driver
from briskrl.cluster.sweep.folder import (
    ROOT,
    SWEEP_TOML,
    SweepInfo,
    read_sweep,
    sweep_toml,
)
from briskrl.cluster.sweep.keys import describe
from briskrl.cluster.sweep.ledger import LEDGER, Ledger, read_ledger
from briskrl.cluster.sweep.outcome import Stopped, SweepResult, TrialSummary
from briskrl.cluster.sweep.plan import Plan, cpus_per_run, make_plan, sweep_info, trial_config
from briskrl.cluster.sweep.reporter import SilentReporter, SweepReporter
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.cluster.sweep.trial_source import open_trials
from briskrl.core.config import to_toml
from briskrl.core.config_file import Layer
from briskrl.core.errors import BriskError, ConfigError, RunFolderError
from briskrl.core.types import JSON
from briskrl.training.config import TrainConfig
from briskrl.training.reporter import StopSignal
from briskrl.training.storage.atomic_files import make_folder, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.storage.lock import FolderLock
from briskrl.training.storage.run_dir import cannot_create, make_named, slug, timestamp
from briskrl.training.trust import check_trusted, modules_of_run

BEST_TOML = "best.toml"
_REASONS = tuple(reason for part in get_args(Stopped) for reason in get_args(part))

Stop = Callable[[], StopSignal | None]


def sweep(
    config: TrainConfig,
    settings: SweepConfig | None = None,
    executor: ExecutorConfig | None = None,
    *,
    given: Layer | None = None,
    reporter: SweepReporter | None = None,
    stop: Stop = lambda: None,
) -> SweepResult:
    """Train with other settings or seeds, many times, and compare the results.

    Args:
        config: What all trials have in common; its seed is the first one.
        settings: What varies, and what is compared.
        executor: Where the runs are trained.
        given: The settings of `config` that were given, if it is complete; the others get their
            defaults anew where a trial has another environment or algorithm.
        reporter: Gets the events.
        stop: Returns a signal to stop the sweep, which then saves and can be resumed.

    Raises:
        BriskError: A setting cannot be used, or the folder cannot be written.
    """
    settings, executor = settings or SweepConfig(), executor or ExecutorConfig()
    info = sweep_info(config, settings, executor, given)
    plan = make_plan(info)
    info = _create_folder(info)
    try:
        with _locked(info.folder):
            _write_sweep(info)
            return _drive(info, plan, reporter or SilentReporter(), stop)
    except BriskError:
        _remove_unless_begun(info.folder)
        raise


def _remove_unless_begun(folder: Path) -> None:
    """Remove the folder of a sweep without any run, as when a cluster cannot be reached."""
    with suppress(BriskError):
        if all(record.state == "planned" for record in read_ledger(folder)):
            shutil.rmtree(folder, ignore_errors=True)
            if folder.parent == ROOT:
                # Made for this sweep, unless there are others in it.
                with suppress(OSError):
                    ROOT.rmdir()


def resume_sweep(
    folder: Path,
    *,
    more_trials: int = 0,
    retry_failed: bool = False,
    executor: ExecutorConfig | None = None,
    trust: bool = False,
    reporter: SweepReporter | None = None,
    stop: Stop = lambda: None,
) -> SweepResult:
    """Continue a sweep that was stopped or killed; one that has finished is only reported again.

    Args:
        folder: Folder of the sweep.
        more_trials: Trials to add to a search.
        retry_failed: Run failed runs of a grid again.
        executor: Where the runs are trained from now on; as before by default.
        trust: Import the modules that settings of other users name.
        reporter: See `sweep`.
        stop: See `sweep`.

    Raises:
        BriskError: There is no sweep in the folder, or it cannot be continued.
    """
    info = read_sweep(folder)
    info = replace(info, executor=executor or info.executor)
    info = _with_more_trials(info, more_trials)
    plan = make_plan(info)
    _check_trusted(info, plan, trust=trust)
    if retry_failed and info.settings.search is not None:
        raise ConfigError(
            "--retry-failed is for grids and seeds: the search has taken the failures into "
            "account. Add trials with --trials."
        )
    with _locked(folder):
        _write_sweep(info)
        return _drive(info, plan, reporter or SilentReporter(), stop, retry_failed=retry_failed)


def read_result(folder: Path) -> SweepResult:
    """The state of a sweep, also while it runs.

    Raises:
        BriskError: There is no sweep in the folder, or its files cannot be read.
    """
    return SweepResult(read_sweep(folder), read_ledger(folder), _how_it_ended(folder))


def _how_it_ended(folder: Path) -> Stopped:
    """Why the last driver has ended; killed if it has not written that, perhaps not yet."""
    reason: JSON = "killed"
    for event in read_jsonl(folder / LEDGER):
        if event["event"] == "begin":
            reason = "killed"
        elif event["event"] == "end":
            reason = event.get("reason")
    # Another version may know other reasons.
    return reason if reason in _REASONS else "killed"


def _drive(
    info: SweepInfo,
    plan: Plan,
    reporter: SweepReporter,
    stop: Stop,
    *,
    retry_failed: bool = False,
) -> SweepResult:
    """Run what is left of a sweep whose folder is locked."""
    ledger = Ledger(info.folder)
    try:
        ledger.note("begin", time=timestamp(), briskrl=__version__)
        if retry_failed:
            for record in [run for run in ledger.records.values() if run.state == "failed"]:
                ledger.add("again", record.name)
        trials = open_trials(info, plan, ledger)
        cpus = cpus_per_run(info, plan)
        with open_executor(_storage_of(info), info.folder, cpus_per_job=cpus) as executor:
            jobs = max(1, executor.slots // cpus)
            reporter.on_start(info, ledger.records, jobs)
            driver = Driver(info, ledger, trials, executor, reporter=reporter, jobs=jobs, stop=stop)
            stopped = driver.run()
        ledger.note("end", time=timestamp(), reason=stopped)
        records = list(ledger.records.values())
    finally:
        ledger.close()
    result = SweepResult(info, records, stopped, driver.first_cause)
    return replace(result, files=_write_results(result, reporter))


def _write_results(result: SweepResult, reporter: SweepReporter) -> tuple[Path, ...]:
    """Write best.toml and the report; returns their paths."""
    written: list[Path] = []
    folder, best = result.info.folder, result.best
    if best is not None and best.values:
        path = folder / BEST_TOML
        with storage_errors(f"write {path}"):
            replace_file(path, best_toml(result.info, best).encode())
        written.append(path)
    # Imported at the end only, because it imports matplotlib.
    from briskrl.cluster.sweep.report import write_report

    try:
        written += write_report(folder)
    except BriskError as error:
        # The sweep itself is done, and its results are in the ledger.
        reporter.on_note(f"The report could not be written: {error}")
    return tuple(written)


def best_toml(info: SweepInfo, best: TrialSummary) -> str:
    """The settings of the best trial, for `brisk train --config`."""
    value = best.value(info.metric)
    return (
        f"# Trial {best.trial} of the sweep {info.folder.name}: {describe(best.values)}\n"
        f"# {info.metric} {value:.6g}, mean of {len(best.runs)} seeds\n"
        + to_toml(trial_config(info, best.values))
    )


def _create_folder(info: SweepInfo) -> SweepInfo:
    """Create the folder of a new sweep.

    Raises:
        RunFolderError: It exists, or cannot be created.
    """
    config, given = info.config, info.settings.sweep_dir
    if given is None:
        name = f"{slug(config.env)}-{slug(config.algo)}"
        return replace(info, folder=make_named(ROOT, name, flag="--sweep-dir"))
    path = Path(given)
    if path.exists():
        raise RunFolderError(
            f"The folder {path} already exists. Choose another one with --sweep-dir, or continue "
            f"the sweep in it with: brisk sweep resume {path}"
        )
    try:
        make_folder(path, exist_ok=False)
    except OSError as error:
        raise cannot_create(path, error, flag="--sweep-dir") from error
    return replace(info, folder=path)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FolderLock(folder / "lock")
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _write_sweep(info: SweepInfo) -> None:
    path = info.folder / SWEEP_TOML
    with storage_errors(f"write {path}"):
        replace_file(path, sweep_toml(info).encode())


def _with_more_trials(info: SweepInfo, more: int) -> SweepInfo:
    if not more:
        return info
    if info.settings.search is None:
        raise ConfigError("--trials adds trials to a search, and this sweep has none.")
    trials = info.settings.num_trials + more
    return replace(info, settings=replace(info.settings, trials=trials))


def _storage_of(info: SweepInfo) -> ExecutorConfig:
    """Where the executor keeps the runs: a part of the storage that belongs to this sweep."""
    storage = info.executor.storage
    if storage is None:
        return info.executor
    name = info.folder.absolute().name
    own = f"{storage.rstrip('/')}/{name}" if is_url(storage) else str(Path(storage) / name)
    return replace(info.executor, storage=own)


def _check_trusted(info: SweepInfo, plan: Plan, *, trust: bool) -> None:
    """Check that a folder which others can change names no modules to import.

    Raises:
        ConfigError: It does.
    """
    folder = info.folder
    chosen = read_ledger(folder) if (folder / LEDGER).is_file() else []
    values = [*plan.trials, *(record.values for record in chosen)]
    configs = [info.config, *(trial_config(info, one) for one in values)]
    modules = {module for config in configs for module in modules_of_run(config)}
    check_trusted([folder, folder / SWEEP_TOML, folder / LEDGER], sorted(modules), trust=trust)
