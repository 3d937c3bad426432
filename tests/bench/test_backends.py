"""The benchmark of backends: what it tells and how its figures hang together."""

from __future__ import annotations

import json

import gymnasium
import pytest

from briskrl.bench import delay_env as paced
from briskrl.bench.backends import BackendFigures, measure_backends
from briskrl.bench.config import BackendsBench
from briskrl.cli.main import main


@pytest.fixture(scope="module")
def figures() -> BackendFigures:
    return measure_backends(BackendsBench(num_envs=4, slices=1, seconds=0.1))


def test_ratios_of_one_turn_are_those_of_the_rates(figures: BackendFigures) -> None:
    told = figures
    ratios = {
        told.cheap_vs_async_vector_env: (
            told.cheap_process_steps_per_s,
            told.cheap_async_vector_env_steps_per_s,
        ),
        told.busy_vs_async_vector_env: (
            told.busy_process_steps_per_s,
            told.busy_async_vector_env_steps_per_s,
        ),
        told.busy_vs_sync: (told.busy_process_steps_per_s, told.busy_sync_steps_per_s),
        told.first_ready_vs_barrier: (told.first_ready_steps_per_s, told.barrier_steps_per_s),
    }
    for ratio, (above, below) in ratios.items():
        assert ratio == pytest.approx(above / below)
    assert told.cheap_vs_async_vector_env_by_cpu > 0
    assert (told.num_envs, told.min_ready, told.first_ready_workers) == (4, 2, 4)


def test_going_on_with_half_beats_waiting_for_all(figures: BackendFigures) -> None:
    """A question of sleeping and not of speed, so that it holds on a busy machine too."""
    assert figures.first_ready_vs_barrier > 1.0


def test_paced_steps_are_repeatable_and_end_by_time() -> None:
    def play() -> list[tuple[list[float], bool]]:
        env = gymnasium.make(paced.ID, loops=3, slow_share=0.5, slow_factor=2.0)
        env.reset(seed=4)
        steps = (env.step(0) for _ in range(200))
        return [(obs.tolist(), truncated) for obs, _, _, truncated, _ in steps]

    first = play()
    assert first == play()
    assert [truncated for _, truncated in first] == [False] * 199 + [True]


def test_loops_take_about_as_long_as_asked() -> None:
    assert paced.loops_for(0.002) > paced.loops_for(0.0005) > 100


def test_the_command_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "backends", "--num-envs", "2", "--slices", "1", "--seconds", "0.02", "--json"]
    assert main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_envs"] == 2
    assert {"cheap_vs_async_vector_env", "busy_vs_sync", "first_ready_vs_barrier"} <= told.keys()
