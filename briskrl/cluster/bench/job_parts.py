"""How the number of finished runs grows with workers, and what a job costs besides its work."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Literal

import psutil

from briskrl.bench.command import Report
from briskrl.bench.compare import PairedComparison
from briskrl.cluster.bench.command import WORKERS, ClusterBench, ExecutorFigures
from briskrl.cluster.bench.ratios import interval_of
from briskrl.cluster.bench.workloads import SLEEP_S, compute_run, delay_run, tiny_run
from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobDone, JobFailed
from briskrl.cluster.run_job import Evaluation, RunJob
from briskrl.cluster.settings import ExecutorConfig, open_executor
from briskrl.core.errors import BriskError
from briskrl.core.scratch_folder import ScratchFolder
from briskrl.training.config import TrainConfig

TINY_JOBS = 10
"""Jobs over which the overhead is averaged."""
_CALIBRATION_STEPS = 200_000


class Rounds:
    """Rounds of equal jobs, all of which begin at the same time.

    Args:
        executor: With at least as many slots as a round has jobs.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._numbers = count()

    def run(self, config: TrainConfig, jobs: int) -> float:
        """Run a number of jobs at the same time; returns the seconds until the last has ended.

        Raises:
            BriskError: A job has failed.
        """
        begin = perf_counter()
        for _ in range(jobs):
            name = f"job-{next(self._numbers)}"
            self._executor.submit(RunJob(name, config, Evaluation(episodes=1)))
        left = jobs
        while left and (event := self._executor.wait()) is not None:
            if isinstance(event, JobFailed):
                raise BriskError(f"A job of the benchmark has failed: {event.cause}")
            left -= isinstance(event, JobDone)
        return perf_counter() - begin

    def slice_of(self, config: TrainConfig, jobs: int) -> Callable[[], float]:
        """Measures jobs per second when this number of them run at the same time."""
        return lambda: jobs / self.run(config, jobs)


def measure_jobs(
    name: Literal["local", "ray"], bench: ClusterBench, figures: ExecutorFigures, report: Report
) -> None:
    """Fill in jobs_scaling, two_jobs_ratio and overhead_per_job_s.

    Raises:
        BriskError: The executor cannot be opened, or a job has failed.
    """
    if not {"jobs", "two_jobs", "overhead"} & set(bench.parts):
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(ScratchFolder("brisk-bench-")))
        most = WORKERS[-1] if "jobs" in bench.parts else 2
        settings = ExecutorConfig(executor=name, jobs=most, address=bench.address, retries=0)
        rounds = Rounds(stack.enter_context(open_executor(settings, folder)))
        report(f"{most} workers start")
        # The first one alone, so that not all of them compile the same kernels.
        for jobs in (1, most):
            rounds.run(tiny_run(), jobs)
        if "overhead" in bench.parts:
            report("overhead per job")
            figures.overhead_per_job_s = _overhead(rounds, cpu=name == "local")
        if "two_jobs" in bench.parts:
            _measure_two_jobs(rounds, bench, figures, report)
        if "jobs" in bench.parts:
            _measure_scaling(rounds, bench, figures, report)


def _overhead(rounds: Rounds, *, cpu: bool) -> float:
    """Mean cost of jobs that do next to nothing, in CPU seconds of all processes or in seconds."""
    before = _cpu_s()
    seconds = sum(rounds.run(tiny_run(), 1) for _ in range(TINY_JOBS))
    return (_cpu_s() - before if cpu else seconds) / TINY_JOBS


def _cpu_s() -> float:
    """CPU seconds of this process and of those below it, which stay the same while measuring."""
    own = psutil.Process()
    processes = [own, *own.children(recursive=True)]
    times = [process.cpu_times() for process in processes]
    return sum(each.user + each.system for each in times)


def _measure_two_jobs(
    rounds: Rounds, bench: ClusterBench, figures: ExecutorFigures, report: Report
) -> None:
    rounds.run(compute_run("cartpole", 1), 2)
    seconds = rounds.run(compute_run("cartpole", _CALIBRATION_STEPS), 1)
    config = compute_run("cartpole", _CALIBRATION_STEPS * bench.seconds / seconds)
    sides = PairedComparison(one=rounds.slice_of(config, 1), two=rounds.slice_of(config, 2))
    for turn in range(bench.slices):
        report(f"two computing jobs, turn {turn + 1} of {bench.slices}")
        sides.take_turn()
    figures.two_jobs_ratio = sides.median_ratio("two", "one")
    interval_of(figures, "two_jobs_ratio", sides, "two", "one")


def _measure_scaling(
    rounds: Rounds, bench: ClusterBench, figures: ExecutorFigures, report: Report
) -> None:
    rounds.run(delay_run(SLEEP_S), WORKERS[-1])
    config = delay_run(bench.seconds)
    sides = PairedComparison(
        **{str(workers): rounds.slice_of(config, workers) for workers in WORKERS}
    )
    for turn in range(bench.slices):
        report(f"sleeping jobs with up to {WORKERS[-1]} workers, turn {turn + 1} of {bench.slices}")
        sides.take_turn()
    for workers in map(str, WORKERS):
        figures.jobs_scaling[workers] = sides.median_ratio(workers, "1")
        if workers != "1":
            interval_of(figures, f"jobs_scaling.{workers}", sides, workers, "1")
