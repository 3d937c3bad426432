"""Calibrations of this machine are complete, consistent and without side effects."""

from __future__ import annotations

import pytest
import torch

from briskrl.fused.calibration import calibrate as measure
from briskrl.fused.calibration.calibrate import Calibration, calibrate, calibrate_quickly
from briskrl.fused.calibration.call_overhead import CallOverhead, measure_call_overhead
from briskrl.fused.calibration.gemm_rates import SHAPES, GemmRate, name_of
from briskrl.fused.calibration.memory_rates import MemoryRates, measure_memory


@pytest.fixture(scope="module")
def quick() -> Calibration:
    return calibrate_quickly()


def test_a_quick_calibration_has_all_products_on_one_thread(quick: Calibration) -> None:
    assert list(quick.products) == [name_of(shape) for shape in SHAPES]
    for rate in quick.products.values():
        assert min(rate.torch, rate.fused) > 0
        assert rate.torch_two_threads is rate.fused_two_threads is None
    assert quick.quick
    assert quick.memory is quick.calls is quick.two_threads_gflops is None


def test_the_best_product_is_the_machines_rate_and_is_named(quick: Calibration) -> None:
    rates = {
        f"{side} {shape}": getattr(rate, side)
        for shape, rate in quick.products.items()
        for side in ("torch", "fused")
    }
    assert quick.gflops == max(rates.values())
    assert rates[quick.gflops_of] == quick.gflops


def test_no_work_is_optimized_away(quick: Calibration) -> None:
    # A loop that the compiler removed would seem thousands of times as fast as this.
    assert quick.gflops < 10_000


def test_calibrating_has_no_side_effects() -> None:
    threads, dice = torch.get_num_threads(), torch.get_rng_state()
    calibrate_quickly()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), dice)


def test_memory_is_measured_with_one_thread_and_two() -> None:
    rates = measure_memory(budget_s=0.001, two_threads=True, numbers=1 << 16)
    assert rates.triad_two_threads is not None
    assert min(rates.copy, rates.triad, rates.triad_two_threads) > 0
    assert measure_memory(budget_s=0, two_threads=False, numbers=64).triad_two_threads is None


def test_calls_are_measured_with_and_without_another_thread() -> None:
    costs = measure_call_overhead(budget_s=0.002, two_threads=True)
    assert costs.hand_over_us is not None
    assert min(costs.python_us, costs.kernel_us, costs.torch_us) > 0
    # A request to another thread costs more than a call.
    assert costs.hand_over_us > costs.python_us
    assert measure_call_overhead(budget_s=0, two_threads=False).hand_over_us is None


@pytest.mark.parametrize("two_threads", [False, True])
def test_a_thorough_calibration_divides_its_time_among_all_measurements(
    monkeypatch: pytest.MonkeyPatch, two_threads: bool
) -> None:
    budgets = []

    def products(*, budget_s: float, two_threads: bool) -> dict[str, GemmRate]:
        count = 4 if two_threads else 2
        budgets.extend([budget_s] * count * len(SHAPES))
        return {"1x2x3": GemmRate(5.0, 4.0), "4x5x6": GemmRate(3.0, 6.0, 9.0, 11.0)}

    def memory(*, budget_s: float, two_threads: bool) -> MemoryRates:
        budgets.extend([budget_s] * (3 if two_threads else 2))
        return MemoryRates(1.0, 2.0)

    def calls(*, budget_s: float, two_threads: bool) -> CallOverhead:
        budgets.extend([budget_s] * (4 if two_threads else 3))
        return CallOverhead(1.0, 2.0, 3.0)

    for name, stand_in in (("gemm", products), ("memory", memory), ("call_overhead", calls)):
        monkeypatch.setattr(measure, f"measure_{name}", stand_in)
    found = calibrate(10.0, two_threads=two_threads)
    assert sum(budgets) == pytest.approx(10.0, rel=0.15)
    assert (found.gflops, found.gflops_of) == (6.0, "fused 4x5x6")
    assert found.two_threads_gflops == 11.0
    assert not found.quick
