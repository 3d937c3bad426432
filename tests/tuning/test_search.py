"""The search on a simulated noisy machine."""

from __future__ import annotations

from itertools import product
from math import exp, log

import numpy as np
import pytest

from briskrl.tuning.search import Progress, Search
from briskrl.tuning.space import Point
from briskrl.tuning.trials import TrialError

AXES: dict[str, tuple[object, ...]] = {
    "num_envs": (8, 16, 32, 64, 128, 256, 512, 1024),
    "threads": (1, 2, 4, 8),
    "engine": ("torch", "fused"),
    "backend": ("process", "sync", "async"),
}


def points() -> list[Point]:
    found = [Point(tuple(zip(AXES, values, strict=True))) for values in product(*AXES.values())]  # type: ignore[arg-type]
    start = Point((("num_envs", 8), ("threads", 1), ("engine", "torch"), ("backend", "process")))
    return [start, *(point for point in found if point != start)]


class Machine:
    """A simulated machine: fixed costs per call, threads that help only sometimes, bursts of other
    load, and a drifting speed. Every slice advances the clock."""

    def __init__(self, seed: int, noise: float = 0.15) -> None:
        self._rng = np.random.default_rng(seed)
        self._noise = noise
        self._speed = 0.0
        self.now_s = 0.0
        self.slices: list[Point] = []
        self.broken: set[Point] = set()

    def true_rate(self, point: Point) -> float:
        envs, threads = int(point["num_envs"]), int(point["threads"])
        fused = point["engine"] == "fused"
        call_s = {"sync": 20e-6, "process": 120e-6, "async": 200e-6}[str(point["backend"])]
        act_s = 15e-6 if fused else 150e-6
        # Torch threads only slow each other down; those of the fused engine help with enough work.
        helps = min(threads, 1 + envs / 128) if fused else 1 / threads**2
        return envs / (call_s + act_s + envs * 2e-6 / helps)

    def clock(self) -> float:
        return self.now_s

    def measure(self, point: Point, floor: float = 0.0) -> float:
        self.slices.append(point)
        self.now_s += 0.5
        if point in self.broken:
            raise TrialError("It broke.")
        self._speed = 0.95 * self._speed + 0.1 * self._rng.standard_normal()
        burst = log(3) if self._rng.random() < 0.05 else 0.0
        noise = self._noise * self._rng.standard_normal()
        return self.true_rate(point) * exp(self._speed + noise - burst)


def search(machine: Machine, seed: int = 0, **options: object) -> Search:
    return Search(
        points(),
        machine.measure,
        distance=distance,
        seed=seed,
        now=machine.clock,
        **options,  # type: ignore[arg-type]
    )


def distance(point: Point) -> float:
    return len(point.changed_axes(points()[0]))


@pytest.mark.parametrize("seed", range(8))
def test_a_nearly_optimal_point_is_found_with_a_part_of_the_space(seed: int) -> None:
    machine = Machine(seed)
    found = search(machine, seed).run(scan_s=45, race_s=40, total_s=120)
    best = max(map(machine.true_rate, points()))
    assert machine.true_rate(found) >= 0.9 * best
    assert len(set(machine.slices)) < len(points()) / 2


def test_every_point_of_a_small_space_is_scanned_before_the_race() -> None:
    machine = Machine(1)
    searching = Search(points()[:20], machine.measure, distance=distance, now=machine.clock)
    searching.run(scan_s=1000, race_s=1, total_s=1000)
    assert set(searching.findings.gains) == set(points()[:20])


def test_drift_is_corrected_by_slices_of_the_start() -> None:
    class Drifting(Machine):
        def measure(self, point: Point, floor: float = 0.0) -> float:
            self.slices.append(point)
            self.now_s += 0.5
            return 100.0 * exp(-0.3 * len(self.slices))

    machine = Drifting(0)
    searching = Search(points()[:16], machine.measure, distance=distance, now=machine.clock)
    searching.run(scan_s=1000, race_s=0, total_s=1000)
    assert machine.slices[:5] == [points()[0], *machine.slices[1:4], points()[0]]
    gains = list(searching.findings.gains.values())
    # The machine slows down a hundredfold on the way; no point looks 1.5 times as fast or slow.
    assert max(gains) < 1.5
    assert min(gains) > 1 / 1.5


def test_points_that_fail_are_listed_and_left_out() -> None:
    machine = Machine(3)
    machine.broken = {point for point in points() if point["engine"] == "fused"}
    searching = search(machine)
    found = searching.run(scan_s=60, race_s=30, total_s=120)
    assert found["engine"] == "torch"
    assert searching.findings.skipped
    assert set(searching.findings.skipped) <= machine.broken
    assert set(searching.findings.skipped.values()) == {"It broke."}
    assert not set(searching.findings.order) & machine.broken


def test_a_point_that_fails_in_the_race_is_left_out_too() -> None:
    class Wearing(Machine):
        def measure(self, point: Point, floor: float = 0.0) -> float:
            if point["backend"] == "sync" and self.slices.count(point):
                raise TrialError("Worn out.")
            return super().measure(point, floor)

    machine = Wearing(4)
    searching = search(machine)
    assert searching.run(scan_s=60, race_s=30, total_s=120)["backend"] != "sync"
    assert "Worn out." in searching.findings.skipped.values()


def test_the_start_is_returned_if_everything_else_fails() -> None:
    machine = Machine(5)
    machine.broken = set(points()[1:])
    assert search(machine).run(scan_s=30, race_s=10, total_s=60) == points()[0]


def test_of_equally_fast_points_the_one_that_changes_least_wins() -> None:
    class Even(Machine):
        def measure(self, point: Point, floor: float = 0.0) -> float:
            self.now_s += 0.5
            return 100.0 + self._rng.random()

    machine = Even(6)
    start = points()[0]
    few = points()[:40]
    found = Search(few, machine.measure, distance=distance, now=machine.clock).run(
        scan_s=50, race_s=20, total_s=100
    )
    assert found == start


def test_a_stop_request_ends_the_search_with_the_best_so_far() -> None:
    machine = Machine(7)
    searching = search(machine, stop=lambda: len(machine.slices) >= 20)
    found = searching.run(scan_s=1000, race_s=1000, total_s=2000)
    assert len(machine.slices) <= 21
    assert searching.findings.gains[found] == max(searching.findings.gains.values())


def test_slices_get_a_floor_below_the_best_rate() -> None:
    machine, floors = Machine(8), list[float]()

    def measure(point: Point, floor: float = 0.0) -> float:
        floors.append(floor)
        return machine.measure(point)

    Search(points(), measure, distance=distance, now=machine.clock).run(20, 10, 60)
    assert floors[0] == 0
    assert 0 < max(floors) < max(map(machine.true_rate, points()))


def test_progress_has_the_stage_and_the_share_of_the_time() -> None:
    machine, seen = Machine(9), list[Progress]()
    search(machine, progress=seen.append).run(scan_s=20, race_s=20, total_s=60)
    assert [each.stage for each in seen] == sorted((each.stage for each in seen), reverse=True)
    fractions = [each.fraction for each in seen]
    assert fractions == sorted(fractions)
    assert 0 < fractions[0] < fractions[-1] <= 1
    assert seen[-1].points == len(points())
