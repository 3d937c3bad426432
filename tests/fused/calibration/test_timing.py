"""Times are those of the fastest slice, on a simulated clock."""

from __future__ import annotations

import pytest
import torch

from briskrl.fused.calibration.timing import SLICE_S, best_seconds, torch_threads


class Bench:
    """Work that takes a known time per repetition, more or less disturbed."""

    def __init__(self, each_s: float, disturbances: list[float] | None = None) -> None:
        self.now = 0.0
        self.each_s = each_s
        self.disturbances = disturbances or []
        self.calls: list[int] = []

    def work(self, repeats: int) -> None:
        self.calls.append(repeats)
        factor = self.disturbances.pop(0) if self.disturbances else 1.0
        self.now += repeats * self.each_s * factor

    def clock(self) -> float:
        return self.now


@pytest.mark.parametrize("each_s", [1e-8, 3e-5, SLICE_S, 0.2])
def test_the_time_per_repetition_is_found(each_s: float) -> None:
    bench = Bench(each_s)
    found = best_seconds(bench.work, budget_s=0.05, clock=bench.clock)
    assert found == pytest.approx(each_s)
    assert bench.calls[-1] * each_s >= SLICE_S


def test_the_fastest_slice_counts() -> None:
    # The first call is a warm-up.
    bench = Bench(0.01, [50.0, 3.0, 1.5, 4.0, 2.0])
    found = best_seconds(bench.work, budget_s=0.09, clock=bench.clock)
    assert found == pytest.approx(0.015)


def test_the_budget_is_kept_to_a_slice() -> None:
    bench = Bench(0.001)
    best_seconds(bench.work, budget_s=0.5, clock=bench.clock)
    assert bench.now == pytest.approx(0.501, abs=0.002)


def test_there_is_a_time_even_without_a_budget() -> None:
    bench = Bench(0.3)
    assert best_seconds(bench.work, budget_s=0.0, clock=bench.clock) == pytest.approx(0.3)


def test_torch_gets_its_threads_back_even_after_an_error() -> None:
    before = torch.get_num_threads()
    seen = []

    def fail() -> None:
        with torch_threads(before + 1):
            seen.append(torch.get_num_threads())
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        fail()
    assert seen == [before + 1]
    assert torch.get_num_threads() == before
