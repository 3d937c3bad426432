"""Cached results per machine and task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.tuning import cache as module
from briskrl.tuning.cache import CachedResult, load, save, target_key, tune_file

FOUND = CachedResult(
    {"num_envs": 256, "engine": "fused", "overlap": True}, 2.0, 1.9, 2.1, 12, "now"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_saved_results_are_loaded_by_key() -> None:
    assert load("a") is None
    assert save("a", FOUND) == tune_file()
    save("b", replace(FOUND, ratio=3.0))
    assert load("a") == FOUND
    assert load("b") == replace(FOUND, ratio=3.0)
    assert load("c") is None


def test_results_of_another_machine_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    save("a", FOUND)
    monkeypatch.setattr(module, "fingerprint", lambda: "another")
    assert load("a") is None
    save("a", replace(FOUND, ratio=5.0))
    monkeypatch.undo()


def test_a_broken_file_is_ignored_and_replaced() -> None:
    tune_file().parent.mkdir(parents=True)
    tune_file().write_bytes(b'{"a": {"values"')
    assert load("a") is None
    save("a", FOUND)
    assert load("a") == FOUND


def test_without_a_cache_folder_nothing_is_saved_and_nothing_fails(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "taken"))
    assert save("a", FOUND) is None
    assert load("a") is None


def test_tasks_are_equal_if_only_tuned_settings_differ() -> None:
    dqn = complete(TrainConfig())
    key = target_key(dqn, "wall")
    for same in (
        {"num_envs": 8},
        {"engine": "torch"},
        {"threads": 2},
        {"overlap": True},
        {"seed": 7},
        {"steps": 1000},
        {"run_dir": "runs/x"},
    ):
        assert target_key(replace(dqn, **same), "wall") == key  # type: ignore[arg-type]
    assert target_key(dqn, "cpu") != key
    for other in ({"algo": "rainbow"}, {"env_config": {"height": 6}}, {"amp": True}):
        assert target_key(complete(TrainConfig(**other)), "wall") != key  # type: ignore[arg-type]


def test_rollouts_of_another_size_are_another_task() -> None:
    def key(num_envs: int, update_steps: int, backend: str = "auto") -> str:
        return target_key(
            complete(
                TrainConfig(
                    env="gym:CartPole-v1",
                    algo="ppo",
                    num_envs=num_envs,
                    algo_config={"update_steps": update_steps},
                    env_config={"backend": backend},
                )
            ),
            "wall",
        )

    assert key(4, 512) == key(64, 32) == key(64, 32, "sync")
    assert key(4, 512) != key(4, 32)
