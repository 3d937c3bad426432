"""How fast the dashboard is: start, 500 runs, a run with 10 million episodes, viewers beside a run.

    python benchmarks/dashboard.py start listing big viewers

Folders are made in a temporary place. `viewers` trains in turns with and without five open pages
(event streams and curves every two seconds, as the page asks for them) and compares medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil

BRISK = [sys.executable, "-P", "-m", "briskrl"]
TURNS, STEPS = 8, 2_000_000
"""Pairs of runs with and without viewers, and transitions of each."""
CONFIG = 'env = "snake"\nalgo = "dqn"\nseed = {seed}\nsteps = 1000000000\n'


@contextmanager
def dashboard(root: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server on `root`, and its address."""
    root.mkdir(parents=True, exist_ok=True)
    command = [*BRISK, "dash", str(root), "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        yield "http" + process.stdout.readline().partition("http")[2].split()[0], process
    finally:
        process.terminate()
        process.wait()


def fetch(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        body = answer.read()
    return json.loads(body) if url.rpartition("/")[2] else body


def start(folder: Path) -> None:
    """Seconds from the command to the page, median of nine, and CPU seconds of that."""
    taken, spent = [], []
    for _ in range(9):
        begin = time.perf_counter()
        with dashboard(folder) as (url, process):
            fetch(url)
            taken.append(time.perf_counter() - begin)
            spent.append(cpu_s(process.pid))
    print(
        f"start: {statistics.median(taken):.2f} s ({min(taken):.2f} to {max(taken):.2f}), "
        f"{statistics.median(spent):.2f} s of CPU"
    )


def listing(folder: Path) -> None:
    """Seconds until 500 runs are listed, from a server that has not seen them."""
    for number in range(500):
        make_run(folder / f"run-{number}", rows=20, episodes=20, seed=number)
    with dashboard(folder) as (url, _):
        begin = time.perf_counter()
        found = fetch(url + "api/runs")["runs"]
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        fetch(url + "api/runs")
        again = time.perf_counter() - begin
        print(f"listing: {len(found)} runs in {first:.2f} s, again {again:.3f} s")


def big(folder: Path) -> None:
    """Seconds until curves of a huge run are shown, and until they are exact."""
    make_run(folder / "big", rows=1_000_000, episodes=10_000_000, seed=0)
    size = sum(path.stat().st_size for path in (folder / "big").iterdir()) / 1e6
    with dashboard(folder) as (url, process):
        run = fetch(url + "api/runs")["runs"][0]["id"]
        begin = time.perf_counter()
        answer = fetch(f"{url}api/curves?run={run}")
        first = time.perf_counter() - begin
        while answer["progress"] < 1:
            answer = fetch(f"{url}api/curves?run={run}")
        exact = time.perf_counter() - begin
        memory = psutil.Process(process.pid).memory_info().rss / 2**20
        cpu = cpu_s(process.pid)
    print(
        f"big: {size:.0f} MB, curves after {first:.2f} s, exact after {exact:.2f} s, "
        f"{cpu:.1f} s of CPU, {memory:.0f} MB of memory"
    )


def viewers(folder: Path) -> None:
    """Training speed with five viewers over that without, in alternating turns."""
    ratios = []
    for turn in range(TURNS):
        # Every other turn begins with the viewers.
        order = ("plain", "watched") if turn % 2 else ("watched", "plain")
        found = {kind: trained(folder / str(turn), watched=kind == "watched") for kind in order}
        pairs = zip(found["watched"], found["plain"], strict=True)
        ratios.append([watched / plain for watched, plain in pairs])
        print(f"  turn {turn}: {ratios[-1][0]:.3f} per CPU second, {ratios[-1][1]:.3f} per second")
    for name, column in zip(("CPU second", "second"), zip(*ratios, strict=True), strict=True):
        error = statistics.stdev(column) / len(column) ** 0.5
        print(f"viewers: {statistics.mean(column):.3f} ± {error:.3f} of the steps per {name}")


def trained(folder: Path, *, watched: bool) -> tuple[float, float]:
    """Steps per CPU second and per second of a run that five pages watch, or none."""
    if not watched:
        return steps_per_cpu_second(folder / "plain" / "run")
    stop = threading.Event()
    make_run(folder / "watched" / "other", rows=20, episodes=20, seed=0)
    with dashboard(folder / "watched") as (url, process):
        # Its start is over when the training begins.
        fetch(f"{url}api/curves?run={fetch(url + 'api/runs')['runs'][0]['id']}")
        pages = [threading.Thread(target=view, args=(url, stop)) for _ in range(5)]
        for page in pages:
            page.start()
        begin, used = time.perf_counter(), cpu_s(process.pid)
        speeds = steps_per_cpu_second(folder / "watched" / "run")
        share = (cpu_s(process.pid) - used) / (time.perf_counter() - begin)
        stop.set()
        for page in pages:
            page.join()
    print(f"  the server took {share:.1%} of a core")
    return speeds


def cpu_s(pid: int) -> float:
    return float(sum(psutil.Process(pid).cpu_times()[:2]))


def view(url: str, stop: threading.Event) -> None:
    """What an open page of curves asks for."""
    with urllib.request.urlopen(url + "api/events"):
        run = None
        while not stop.wait(2):
            if run is None:
                runs = fetch(url + "api/runs")["runs"]
                run = next((one["id"] for one in runs if one["name"] == "run"), None)
            else:
                fetch(f"{url}api/curves?run={run}")


def steps_per_cpu_second(folder: Path) -> tuple[float, float]:
    command = [*BRISK, "train", "snake", "--steps", str(STEPS), "--run-dir", str(folder)]
    command += ["--json", "--final-episodes", "0", "--threads", "1"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = json.loads(output)
    return result["env_steps"] / result["cpu_s"], result["steps_per_s"]


def make_run(folder: Path, *, rows: int, episodes: int, seed: int) -> None:
    """A run as its writer leaves it, with invented numbers."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(CONFIG.format(seed=seed))
    (folder / "status.json").write_text(json.dumps({"env_steps": 1000 * rows, "steps_per_s": 1e5}))
    (folder / "meta.json").write_text(json.dumps({"exit_reason": "finished", "final_score": seed}))
    random = np.random.default_rng(seed)
    line = (
        '{"env_steps":%d,"total_steps":1000000000,"fraction":%.15g,"eta_s":%.15g,"episodes":%d,'
        '"updates":%d,"wall_s":%.15g,"cpu_s":%.15g,"steps_per_s":%.15g,"achieved_gflops":%.15g,'
        '"machine_fraction":%.15g,"mean_return":%.15g,"mean_score":%.6g,"epsilon":%.15g,'
        '"loss":%.15g,"grad_norm":%.15g}\n'
    )

    def metric(k: int, v: float) -> str:
        clock = k * 0.013
        values = (
            k / rows,
            rows - k,
            10 * k,
            31 * k,
            clock,
            clock,
            7e4 * v,
            140 * v,
            v,
            v,
            v,
            v,
            v,
            v,
        )
        return line % (1000 * k, *values)

    write(folder / "metrics.jsonl", "", rows, random, metric)
    head = "env_steps,env,steps,return,score,won,cause\n"
    write(
        folder / "episodes.csv",
        head,
        episodes,
        random,
        lambda k, v: f"{100 * k},{k % 256},90,{400 * v - 5.03:.7g},{40 * v:.0f},0,1\n",
    )


def write(
    path: Path, head: str, rows: int, random: np.random.Generator, line: Callable[[int, float], str]
) -> None:
    with path.open("w") as file:
        file.write(head)
        for begin in range(1, rows + 1, 50_000):
            numbers = range(begin, min(begin + 50_000, rows + 1))
            values = random.random(len(numbers)).tolist()
            file.write("".join(map(line, numbers, values)))


def main() -> None:
    parts = {part.__name__: part for part in (start, listing, big, viewers)}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("PART", nargs="+", choices=parts)
    for name in parser.parse_args().PART:
        with tempfile.TemporaryDirectory() as folder:
            parts[name](Path(folder))


if __name__ == "__main__":
    main()
