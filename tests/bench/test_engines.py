"""`brisk bench engines`: complete and consistent figures."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from briskrl.bench.engines import BATCHES, UPDATES, EnginesBench, measure_engines


@pytest.fixture(scope="module")
def figures():
    return measure_engines(EnginesBench(slices=1, seconds=0.02))


def test_every_figure_is_measured(figures):
    def numbers(table):
        for value in table.values():
            yield from numbers(value) if isinstance(value, dict) else (value,)

    assert all(0 < number < float("inf") for number in numbers(asdict(figures)))


def test_figures_of_an_update_are_consistent(figures):
    assert list(figures.update) == [str(size) for size in BATCHES]
    small, large = figures.update.values()
    assert small.ratio == pytest.approx(small.torch_us / small.fused_us)
    # Eight times the batch is about eight times the arithmetic.
    flops = [each.fused_gflops * each.fused_us for each in (small, large)]
    assert flops[1] / flops[0] == pytest.approx(BATCHES[1] / BATCHES[0], rel=0.2)


def test_updates_per_call_match_the_default_of_training():
    assert UPDATES == 256 / 32
