"""Compare the speed of two installed versions in alternating runs of `brisk bench`.

    python benchmarks/versions.py OLD/.venv/bin/brisk NEW/.venv/bin/brisk
    python benchmarks/versions.py OLD/.venv/bin/brisk NEW/.venv/bin/brisk --only env --rounds 9

Groups: `engines` (brisk bench engines), `env` (brisk bench env, all native environments and
observation modes), `train` (brisk bench train with three algorithms) and `startup` (CPU seconds of
`brisk --help`, and of a short training run with an empty and with a filled cache of compiled
kernels).

Every round runs one benchmark with both versions, one after the other; the order is reversed in
every other round. A ratio above 1 means that the new version is faster; intervals are 95 %
intervals over the rounds. Run on an idle machine; both versions need filled kernel caches,
which one unmeasured run of each benchmark ensures.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from briskrl.bench.compare import Estimate, PairedComparison

TOLERANCE = 0.97
"""Ratios below this are marked as slower."""
SHORT_RUN = "train snake --algo dqn --steps 4000 --num-envs 64 --learning-starts 2000"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One command whose figures are compared.

    Attributes:
        arguments: Arguments of `brisk`, without --json.
        rates: Figures of which more is better, with dots for nested ones.
        costs: Figures of which less is better.
    """

    arguments: str
    rates: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()

    def measure(self, brisk: str) -> dict[str, float]:
        """Run once; returns rates, also for costs."""
        figures = json.loads(run(brisk, f"{self.arguments} --json"))
        found = {name: look_up(figures, name) for name in self.rates}
        return found | {name: 1 / look_up(figures, name) for name in self.costs}


@dataclass(frozen=True, slots=True)
class Startup:
    """CPU seconds of a command; with `cold` the cache of compiled kernels is empty."""

    arguments: str
    cold: bool = False

    def measure(self, brisk: str) -> dict[str, float]:
        """Run once; returns a rate per CPU second."""
        with TemporaryDirectory(prefix="versions-") as folder:
            variables = {"XDG_CACHE_HOME": str(Path(folder) / "cache")} if self.cold else {}
            arguments = self.arguments
            if arguments.startswith("train"):
                arguments += f" --run-dir {folder}/run --json"
            before = children_cpu_s()
            run(brisk, arguments, variables)
            kind = "cold" if self.cold else "warm"
            return {f"CPU time, {kind}": 1 / (children_cpu_s() - before)}


def env_benchmarks(seconds: float) -> list[Benchmark]:
    """Native environments, Snake in all observation modes."""
    names = [f"snake --obs {obs}" for obs in ("features", "flood", "extended", "grid")]
    names += ["cartpole", "cage2"]
    found = [
        Benchmark(
            f"bench env {name} --seconds {seconds}", ("steps_per_cpu_s",), ("best_ns_per_step",)
        )
        for name in names
    ]
    rates = ("best_fires_per_cpu_s", "steps_per_cpu_s")
    return [*found, Benchmark(f"bench env wildfire --seconds {2 * seconds}", rates)]


def engine_benchmarks(seconds: float) -> list[Benchmark]:
    """Updates, training and threads of both engines."""
    rates = [
        f"{algo}.{engine}_steps_per_cpu_s"
        for algo in ("dqn", "ppo")
        for engine in ("fused", "torch")
    ]
    rates += ["dqn_overlap.steps_per_s", "ppo_threads.steps_per_s"]
    costs = [f"update.{size}.{engine}_us" for size in (64, 512) for engine in ("fused", "torch")]
    arguments = f"bench engines --slices 3 --seconds {seconds / 4}"
    return [Benchmark(arguments, tuple(rates), tuple(costs))]


def train_benchmarks(steps: int) -> list[Benchmark]:
    """Whole training runs."""
    runs = (
        f"snake --algo dqn --steps {steps}",
        f"snake --algo rainbow --obs flood --steps {steps // 4}",
        f"cartpole --algo ppo --steps {4 * steps}",
    )
    return [Benchmark(f"bench train {words}", ("steps_per_cpu_s",)) for words in runs]


def startup_benchmarks() -> list[Startup]:
    """Help, and short runs with a filled and an empty cache."""
    return [Startup("--help"), Startup(SHORT_RUN), Startup(SHORT_RUN, cold=True)]


def run(brisk: str, arguments: str, variables: dict[str, str] | None = None) -> str:
    """Run `brisk` and return its output.

    Without PYTHONPATH and in an empty folder, so that each version and the processes it starts
    import their own install.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [os.path.abspath(brisk), *arguments.split()],
            env=environment | (variables or {}),
            cwd=folder,
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{brisk} {arguments} failed:\n{done.stderr}")
    return done.stdout


def children_cpu_s() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def look_up(figures: dict[str, Any], name: str) -> float:
    """A figure by its dotted name."""
    found: Any = figures
    for part in name.split("."):
        found = found[part]
    return float(found)


def compare(
    benchmark: Benchmark | Startup, old: str, new: str, rounds: int
) -> Iterator[tuple[str, PairedComparison]]:
    """All figures of a benchmark, in alternating runs after one of each that does not count."""
    if not (isinstance(benchmark, Startup) and benchmark.cold):
        benchmark.measure(old), benchmark.measure(new)
    comparisons: dict[str, PairedComparison] = {}
    for number in range(rounds):
        order = (("old", old), ("new", new))
        rates = {
            side: benchmark.measure(brisk) for side, brisk in order[:: -1 if number % 2 else 1]
        }
        for name in rates["old"]:
            comparison = comparisons.setdefault(name, PairedComparison())
            comparison.record(old=rates["old"][name], new=rates["new"][name])
    yield from comparisons.items()


def describe(found: Estimate) -> str:
    """A ratio with its interval, and a mark if the new version is slower."""
    interval = f"{found.low:.3f} to {found.high:.3f}" if found.pairs > 1 else "-"
    mark = "  SLOWER" if found.ratio < TOLERANCE else ""
    return f"{found.ratio:8.3f}   {interval:>16}{mark}"


def main() -> int:
    """Parse the arguments, compare, and print a table; 1 if a figure is slower."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    groups: dict[str, Callable[[argparse.Namespace], list[Any]]] = {
        "startup": lambda args: startup_benchmarks(),
        "env": lambda args: env_benchmarks(args.seconds),
        "engines": lambda args: engine_benchmarks(args.seconds),
        "train": lambda args: train_benchmarks(args.steps),
    }
    parser.add_argument("old", metavar="OLD", help="brisk executable of the old version")
    parser.add_argument("new", metavar="NEW", help="brisk executable of the new version")
    parser.add_argument("--only", nargs="+", choices=list(groups), default=list(groups))
    parser.add_argument("--rounds", type=int, default=5, help="runs of each version [default: 5]")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per run [default: 2]")
    parser.add_argument("--steps", type=int, default=400_000, help="steps of a training run")
    parser.add_argument("--json", type=Path, help="file to write all ratios to")
    args = parser.parse_args()
    results, slower = {}, 0
    print(f"{'new over old, above 1 is faster':96}   ratio   95 % interval")
    for group in args.only:
        for benchmark in groups[group](args):
            for name, comparison in compare(benchmark, args.old, args.new, args.rounds):
                found = comparison.estimate()
                label = f"{benchmark.arguments}: {name}"
                results[label] = {"ratio": found.ratio, "rates": comparison.rates}
                slower += found.ratio < TOLERANCE
                print(f"{label:96}{describe(found)}", flush=True)
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1))
    print(
        f"{len(results) - slower} of {len(results)} figures are at least {TOLERANCE:g} of the old"
    )
    return int(slower > 0)


if __name__ == "__main__":
    sys.exit(main())
