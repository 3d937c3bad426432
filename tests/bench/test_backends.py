"""`brisk bench backends`: consistent figures, and the environment it measures."""

from __future__ import annotations

import json

import gymnasium
import pytest

from briskrl.bench import delay_env
from briskrl.bench.backends import BackendFigures, BackendsBench, measure_backends
from briskrl.cli.main import main


@pytest.fixture(scope="module")
def figures() -> BackendFigures:
    return measure_backends(BackendsBench(num_envs=4, slices=1, seconds=0.1))


def test_ratios_of_one_slice_match_the_rates(figures: BackendFigures) -> None:
    ratios = {
        figures.cheap_vs_async_vector_env: (
            figures.cheap_process_steps_per_s,
            figures.cheap_async_vector_env_steps_per_s,
        ),
        figures.busy_vs_async_vector_env: (
            figures.busy_process_steps_per_s,
            figures.busy_async_vector_env_steps_per_s,
        ),
        figures.busy_vs_sync: (figures.busy_process_steps_per_s, figures.busy_sync_steps_per_s),
        figures.first_ready_vs_barrier: (
            figures.first_ready_steps_per_s,
            figures.barrier_steps_per_s,
        ),
    }
    for ratio, (above, below) in ratios.items():
        assert ratio == pytest.approx(above / below)
    assert figures.cheap_vs_async_vector_env_by_cpu > 0
    assert (figures.num_envs, figures.min_ready, figures.first_ready_workers) == (4, 2, 4)


def test_first_ready_is_faster_than_a_barrier(figures: BackendFigures) -> None:
    """The difference comes from sleeping, so this holds on a busy machine too."""
    assert figures.first_ready_vs_barrier > 1.0


def test_delay_env_is_reproducible_and_truncates_after_200_steps() -> None:
    def play() -> list[tuple[list[float], bool]]:
        env = gymnasium.make(delay_env.ID, loops=3, slow_share=0.5, slow_factor=2.0)
        env.reset(seed=4)
        steps = (env.step(0) for _ in range(200))
        return [(obs.tolist(), truncated) for obs, _, _, truncated, _ in steps]

    first = play()
    assert first == play()
    assert [truncated for _, truncated in first] == [False] * 199 + [True]


def test_more_cpu_time_needs_more_loops() -> None:
    assert delay_env.loops_for(0.002) > delay_env.loops_for(0.0005) > 100


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "backends", "--num-envs", "2", "--slices", "1", "--seconds", "0.02", "--json"]
    assert main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["num_envs"] == 2
    assert {"cheap_vs_async_vector_env", "busy_vs_sync", "first_ready_vs_barrier"} <= printed.keys()
