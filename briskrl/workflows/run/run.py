"""Begin, continue and read runs under workflows."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from briskrl import __version__
from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobProgress
from briskrl.cluster.serial import SerialExecutor
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.core.config import Settings, build
from briskrl.core.errors import BriskError, ConfigError
from briskrl.training.reporter import StopSignal
from briskrl.training.storage.atomic_files import json_bytes, storage_errors
from briskrl.training.storage.atomic_files import replace as replace_file
from briskrl.training.storage.line_files import plain
from briskrl.training.storage.run_dir import timestamp
from briskrl.training.trust import check_trusted
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.driver import Driver
from briskrl.workflows.run.folder import (
    MAY_CHANGE,
    WORKFLOW_TOML,
    Mode,
    RunInfo,
    create_folder,
    locked,
    read_info,
    write_info,
)
from briskrl.workflows.run.joint import joint_plan
from briskrl.workflows.run.ledger import LEDGER, Ledger, how_it_ended, read_ledger
from briskrl.workflows.run.outcome import Outcome, with_files
from briskrl.workflows.run.reporter import SilentReporter, WorkflowReporter
from briskrl.workflows.run.results import restore_searcher
from briskrl.workflows.run.run_tables import RunTables
from briskrl.workflows.run.setup import RunSetup, make_setup

BEST_JSON = "best.json"
RETRIES = 1
"""How often a job is started again after an error or the loss of its process."""
Stop = Callable[[], StopSignal | None]


def run_workflows(
    config: WorkflowConfig,
    mode: Mode,
    *,
    reporter: WorkflowReporter | None = None,
    stop: Stop = lambda: None,
) -> Outcome:
    """Begin a run in a new run folder.

    Args:
        config: Its settings.
        mode: What to do.
        reporter: Gets the events.
        stop: Returns a signal to stop the run, which then saves and can be resumed.

    Raises:
        BriskError: A setting cannot be used, or the folder cannot be written.
    """
    setup = make_setup(config)
    check_run(setup, mode)
    info = create_folder(setup, mode)
    try:
        with locked(info.folder):
            write_info(info)
            return _drive(info, reporter or SilentReporter(), stop)
    except BriskError:
        _remove_unless_begun(info.folder)
        raise


def resume_run(
    folder: Path,
    changes: Settings | None = None,
    *,
    trust: bool = False,
    reporter: WorkflowReporter | None = None,
    stop: Stop = lambda: None,
) -> Outcome:
    """Continue a run that was stopped or killed; one that has finished is only reported again.

    Args:
        folder: The run folder.
        changes: New values of settings in `MAY_CHANGE`.
        trust: Import the modules that settings of other users name.
        reporter: See `run_workflows`.
        stop: See `run_workflows`.

    Raises:
        BriskError: There is no run in the folder, or it cannot be continued.
    """
    info = read_info(folder)
    info = replace(info, setup=make_setup(_changed(info.config, changes or {})))
    modules = info.config.env_config.modules(info.setup.env)
    check_trusted([folder, folder / WORKFLOW_TOML], modules, trust=trust)
    with locked(folder):
        write_info(info)
        return _drive(info, reporter or SilentReporter(), stop)


def _changed(config: WorkflowConfig, changes: Settings) -> WorkflowConfig:
    """The settings of a run with changes.

    Raises:
        ConfigError: One of them may not change.
    """
    wrong = [name for name in changes if name not in MAY_CHANGE]
    if wrong:
        raise ConfigError(
            f"A resume cannot change {', '.join(wrong)}: the run so far was made with the old "
            f"settings. These may change: {', '.join(MAY_CHANGE)}."
        )
    built = build(WorkflowConfig, changes)
    values = {name: getattr(built, name) for name in changes}
    return replace(config, **values)


def read_outcome(folder: Path) -> Outcome:
    """The state of a run, also while it goes on.

    Raises:
        BriskError: There is no run in the folder, or its files cannot be read.
    """
    return Outcome(read_info(folder), read_ledger(folder), how_it_ended(folder))


def check_run(setup: RunSetup, mode: Mode) -> None:
    """Check that a run can be done, before anything is written.

    Raises:
        ConfigError: The episodes do not suffice (the message names the smallest sufficient number),
            or the settings of the search cannot be used.
    """
    if mode in ("search", "train"):
        setup.plan()
        if setup.config.searcher.kernel == "weighted" and not setup.base_episodes:
            raise ConfigError(
                "kernel = weighted needs the counts of pairs of categories that the base phase "
                "makes: use warm_start = base."
            )
        # It reads the workflows of a list and looks for extras.
        restore_searcher(setup, {})
    elif mode == "joint":
        joint_plan(setup)


def _drive(info: RunInfo, reporter: WorkflowReporter, stop: Stop) -> Outcome:
    """Run what is left of a run whose folder is locked."""
    ledger = Ledger(info.folder)
    tables = RunTables(info.folder, info.setup)
    try:
        ledger.note("begin", time=timestamp(), briskrl=__version__)
        driver = Driver(info, ledger, tables, reporter=reporter, stop=stop)
        with _open_executor(info, driver.listen, stop) as executor:
            reporter.on_start(info, ledger.jobs)
            stopped = driver.run(executor)
        ledger.note("end", time=timestamp(), reason=stopped)
        tables.write_results(ledger.jobs)
    finally:
        tables.close()
        ledger.close()
    outcome = Outcome(info, ledger.jobs, stopped, driver.first_cause)
    return _write_outcome(outcome, reporter)


def _open_executor(info: RunInfo, listen: Callable[[JobProgress], None], stop: Stop) -> Executor:
    config = info.config
    if config.executor_name == "serial":
        return SerialExecutor(
            info.folder, listen, retries=RETRIES, should_stop=lambda: stop() is not None
        )
    settings = ExecutorConfig(
        executor=config.executor_name,
        jobs=config.jobs,
        address=config.address,
        retries=RETRIES,
        job_timeout=config.job_timeout,
        gpus_per_job=config.gpus_per_job,
    )
    return open_executor(settings, info.folder, cpus_per_job=info.setup.threads)


def _write_outcome(outcome: Outcome, reporter: WorkflowReporter) -> Outcome:
    """Write best.json and the report."""
    path = outcome.info.folder / BEST_JSON
    with storage_errors(f"write {path}"):
        replace_file(path, json_bytes(plain(outcome.as_json())))
    files = [path]
    # Imported at the end only, because it imports matplotlib.
    from briskrl.workflows.run.report import write_report

    try:
        files += write_report([outcome])
    except BriskError as error:
        # The run itself is done, and its results are in the ledger.
        reporter.on_note(f"The report could not be written: {error}")
    return with_files(outcome, files)


def _remove_unless_begun(folder: Path) -> None:
    """Remove the folder of a run without any job, as when a cluster cannot be reached."""
    with suppress(BriskError):
        if not (folder / LEDGER).is_file() or not read_ledger(folder):
            shutil.rmtree(folder, ignore_errors=True)
