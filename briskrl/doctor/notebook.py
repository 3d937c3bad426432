"""`%%brisk_doctor`: examine the training in a cell of a notebook.

    %load_ext briskrl.doctor.notebook

    %%brisk_doctor
    train(episodes=100)

The watcher runs in the kernel while the cell does, so the cell has all variables of the notebook.
There are phases, counters and findings, but no experiments: these need a script of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import psutil

from briskrl import __version__
from briskrl.core.cpu import usable_cores
from briskrl.doctor.report.records import Report, ScriptFacts
from briskrl.doctor.report.terminal import describe
from briskrl.doctor.script.costs import Costs
from briskrl.doctor.script.counters import counters, unseen
from briskrl.doctor.script.observed import observe
from briskrl.doctor.script.patterns.age_patterns import slow_start
from briskrl.doctor.script.patterns.find import combine, find_patterns
from briskrl.doctor.script.patterns.suspicions import suspicions
from briskrl.doctor.script.phases import PhaseMap
from briskrl.doctor.script.recording import Recording
from briskrl.doctor.script.source import Sources
from briskrl.doctor.watcher.channel import CONTROL, PAGE, RECORDS
from briskrl.doctor.watcher.start import TICK_S, Watcher, start

TICKER = f"""\
import os, random, sys, time
while os.getppid() == int(sys.argv[1]):
    time.sleep({TICK_S} * random.uniform(0.5, 1.5))
    os.kill(int(sys.argv[1]), {int(signal.SIGPROF)})
"""
"""Sends ticks until it is ended, or the kernel is."""


def load_ipython_extension(shell: Any) -> None:
    """Register the magic; IPython calls this for `%load_ext`."""

    def brisk_doctor(line: str, cell: str) -> None:
        report = watch_call(lambda: shell.run_cell(cell))
        print_report(report)

    shell.register_magic_function(brisk_doctor, "cell", "brisk_doctor")


def print_report(report: Report) -> None:
    """Write the report below the cell."""
    sys.stdout.write(describe(report) + "\n")


def watch_call(call: Callable[[], object]) -> Report:
    """The report of what happened in this process while a function ran."""
    folder, begin = Path(tempfile.mkdtemp(prefix="brisk-doctor-")), perf_counter()
    try:
        (folder / CONTROL).write_bytes(bytes(PAGE))
        before = signal.getsignal(signal.SIGPROF)
        watcher = start(str(folder))
        _run_with_ticks(call, watcher)
        signal.signal(signal.SIGPROF, before)
        return _report(folder, perf_counter() - begin)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run_with_ticks(call: Callable[[], object], watcher: Watcher) -> None:
    ticker = subprocess.Popen([sys.executable, "-S", "-c", TICKER, str(os.getpid())])
    try:
        call()
    finally:
        ticker.terminate()
        ticker.wait()
        watcher.leave()


def _report(folder: Path, took_s: float) -> Report:
    recording, process = Recording(), psutil.Process()
    memory = process.memory_info().rss / 2**20
    for line in (folder / RECORDS).read_text(encoding="utf-8").splitlines():
        recording.take(json.loads(line), rss_mb=memory, changed=False)
    seen = observe(recording, PhaseMap(Sources()))
    costs = Costs(seen, Sources())
    start_note = slow_start(seen.windows)
    return Report(
        target="this cell",
        version=__version__,
        budget_s=took_s,
        took_s=took_s,
        load=os.getloadavg()[0],
        speed=seen.speed(),
        coverage=seen.coverage,
        phases=seen.phases(),
        findings=combine(find_patterns(costs), ()),
        outcomes=(),
        notes=(
            "no experiments: `brisk doctor -- python script.py` makes them",
            *([start_note] if start_note else []),
        ),
        history=seen.moments(),
        cores=usable_cores(),
        script=ScriptFacts(
            argv=(),
            python=sys.version.split()[0],
            exit_code=None,
            stopped=False,
            counters=tuple(counters(seen, threads=process.num_threads(), workers=0, growth="")),
            warnings=tuple(suspicions(costs)),
            unseen=tuple(unseen(seen, recording, workers=0)),
            start_s=None,
            watching=None,
            counting=seen.counting,
        ),
    )
