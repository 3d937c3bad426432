"""Long training runs must not grow: memory, threads, open files and shared memory over hours.

    python -m tests.chaos.soak [--hours 2] [--jobs 1] [--out soak.json] [RUN ...]

Every run trains in a process of its own until its time is up. Its whole process tree is sampled
every few seconds. After a warm-up, a line is fitted to the memory; the other counts must stay as
they are. Prints a table, writes all samples to a file, and exits with 1 if a run grew or failed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

RUNS: dict[str, list[str]] = {
    "dqn": ["snake", "--algo", "dqn"],
    "ppo": ["snake", "--algo", "ppo"],
    "ppo-workers": ["gym:CartPole-v1", "--algo", "ppo", "--backend", "process", "--workers", "2"],
    # A buffer that is full long before the warm-up ends, also on a busy machine, and as long as an
    # episode: its last observations, which are written at the ends of episodes only, always lie in
    # the same rows. In 50,000 transitions they would reach new pages for 1.25 million steps.
    "rainbow-cage2": [
        *("cage2", "--algo", "rainbow"),
        *("--num-envs", "256", "--buffer-size", "25600", "--length", "100"),
    ],
}
FOREVER = "1000000000000"
SAMPLE_S = 10.0
WARMUP = 0.2
"""Share of the run that is warm-up: buffers fill, allocators settle."""
MAX_SLOPE = 0.2
"""Largest growth of the resident memory, in MB per 10 minutes."""
STOP_S = 120.0
"""A run has this long to save and exit when its time is up."""
MB = 2**20


@dataclass(frozen=True)
class Sample:
    """A process and its descendants at one moment."""

    seconds: float
    rss_mb: float
    threads: int
    files: int
    shared_kb: int
    """Resident shared memory."""
    processes: int


@dataclass
class Verdict:
    """What a run did over time."""

    name: str
    hours: float
    exit_code: int | None
    slope_mb: float | None
    """Growth of the resident memory in MB per 10 minutes, after the warm-up."""
    rss_mb: float
    """At the end."""
    threads: list[int]
    """Different values after the warm-up, as for the next three."""
    files: list[int]
    shared_kb: list[int]
    processes: list[int]
    problems: list[str] = field(default_factory=list)


def sample(process: psutil.Process, begin: float) -> Sample | None:
    """The process tree now; None if a process has just ended."""
    try:
        tree = [process, *process.children(recursive=True)]
        return Sample(
            seconds=time.monotonic() - begin,
            rss_mb=sum(each.memory_info().rss for each in tree) / MB,
            threads=sum(each.num_threads() for each in tree),
            files=sum(each.num_fds() for each in tree),
            shared_kb=sum(_shared_kb(each.pid) for each in tree),
            processes=len(tree),
        )
    except (psutil.Error, OSError):
        return None


def _shared_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssShmem:"):
            return int(line.split()[1])
    return 0


def watch(command: Sequence[str], seconds: float, every_s: float) -> tuple[list[Sample], int]:
    """Run a command for a time, then stop it with SIGTERM; its samples and exit code."""
    samples: list[Sample] = []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    watched, begin = psutil.Process(process.pid), time.monotonic()
    try:
        while process.poll() is None and time.monotonic() - begin < seconds:
            found = sample(watched, begin)
            samples += [] if found is None else [found]
            time.sleep(every_s)
        process.send_signal(signal.SIGTERM)
        return samples, process.wait(STOP_S)
    finally:
        process.kill()
        process.wait()


def slope_per_10_min(samples: Sequence[Sample]) -> float:
    """Slope of a line fitted to the resident memory, in MB per 10 minutes."""
    seconds = np.array([each.seconds for each in samples])
    return float(np.polyfit(seconds, [each.rss_mb for each in samples], 1)[0]) * 600


def judge(name: str, samples: Sequence[Sample], exit_code: int | None) -> Verdict:
    """Compare the samples after the warm-up with the limits."""
    end = samples[-1].seconds if samples else 0.0
    steady = [each for each in samples if each.seconds >= WARMUP * end]
    verdict = Verdict(
        name=name,
        hours=end / 3600,
        exit_code=exit_code,
        slope_mb=slope_per_10_min(steady) if len(steady) > 2 else None,
        rss_mb=samples[-1].rss_mb if samples else 0.0,
        threads=sorted({each.threads for each in steady}),
        files=sorted({each.files for each in steady}),
        shared_kb=sorted({each.shared_kb for each in steady}),
        processes=sorted({each.processes for each in steady}),
    )
    verdict.problems = _problems(verdict, steady)
    return verdict


def _problems(verdict: Verdict, steady: Sequence[Sample]) -> list[str]:
    problems = []
    if verdict.exit_code not in (0, 128 + signal.SIGTERM):
        problems.append(f"it ended with code {verdict.exit_code}")
    if verdict.slope_mb is None:
        return [*problems, "too few samples"]
    if verdict.slope_mb > MAX_SLOPE:
        problems.append(f"memory grew by {verdict.slope_mb:.2f} MB per 10 min")
    for name in ("threads", "files", "shared_kb"):
        values = [asdict(each)[name] for each in steady]
        if _grew(values):
            problems.append(f"{name} grew from {values[0]} to {values[-1]}")
    return problems


def _grew(values: Sequence[int]) -> bool:
    """Whether a count grew for good: a file that is being written is open for a moment only."""
    third = max(1, len(values) // 3)
    return min(values[-third:]) > min(values[:third])


def soak(name: str, folder: Path, hours: float) -> dict[str, Any]:
    """One training run; its verdict and samples."""
    command = [sys.executable, "-m", "briskrl", "train", *RUNS[name]]
    command += ["--steps", FOREVER, "--run-dir", str(folder / name), "--json"]
    samples, exit_code = watch(command, 3600 * hours, SAMPLE_S)
    verdict = judge(name, samples, exit_code)
    return {"verdict": asdict(verdict), "samples": [asdict(each) for each in samples]}


def table(verdicts: Sequence[dict[str, Any]]) -> str:
    """One line per run."""
    lines = ["run             hours  RSS MB  MB/10 min  threads  files  shared kB  problems"]
    for each in verdicts:
        slope = "-" if each["slope_mb"] is None else f"{each['slope_mb']:+.3f}"
        lines.append(
            f"{each['name']:14} {each['hours']:6.2f} {each['rss_mb']:7.1f} {slope:>10} "
            f"{_range(each['threads']):>8} {_range(each['files']):>6} "
            f"{_range(each['shared_kb']):>10}  {'; '.join(each['problems']) or 'none'}"
        )
    return "\n".join(lines)


def _range(values: Sequence[int]) -> str:
    if not values:
        return "-"
    return str(values[0]) if len(values) == 1 else f"{values[0]}-{values[-1]}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Long training runs must not grow.")
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"of {', '.join(RUNS)}; default all")
    parser.add_argument("--hours", type=float, default=2.0, help="length of each run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    parser.add_argument("--out", type=Path, default=Path("soak.json"), help="file of all samples")
    options = parser.parse_args(arguments)
    names = options.runs or list(RUNS)
    if unknown := set(names) - set(RUNS):
        parser.error(f"unknown runs: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda name: soak(name, Path(folder), options.hours), names))
    options.out.write_text(json.dumps(results) + "\n")
    verdicts = [result["verdict"] for result in results]
    print(table(verdicts))
    return int(any(verdict["problems"] for verdict in verdicts))


if __name__ == "__main__":
    # A soak belongs behind everything else that the machine does.
    os.nice(10)
    sys.exit(main())
