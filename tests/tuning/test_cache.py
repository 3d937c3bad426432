"""Winners, kept per machine and target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete
from briskrl.tuning import cache as memory
from briskrl.tuning.cache import Remembered, recall, remember, target_key, tune_file

FOUND = Remembered({"num_envs": 256, "engine": "fused", "overlap": True}, 2.0, 1.9, 2.1, 12, "now")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_what_is_kept_is_found_again_beside_others() -> None:
    assert recall("a") is None
    assert remember("a", FOUND) == tune_file()
    remember("b", replace(FOUND, ratio=3.0))
    assert recall("a") == FOUND
    assert recall("b") == replace(FOUND, ratio=3.0)
    assert recall("c") is None


def test_another_machine_does_not_know_it(monkeypatch: pytest.MonkeyPatch) -> None:
    remember("a", FOUND)
    monkeypatch.setattr(memory, "fingerprint", lambda: "another")
    assert recall("a") is None
    remember("a", replace(FOUND, ratio=5.0))
    monkeypatch.undo()


def test_a_broken_file_is_no_memory_and_is_replaced() -> None:
    tune_file().parent.mkdir(parents=True)
    tune_file().write_bytes(b'{"a": {"values"')
    assert recall("a") is None
    remember("a", FOUND)
    assert recall("a") == FOUND


def test_without_a_place_nothing_is_kept_and_nothing_breaks(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cache / "taken").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "taken"))
    assert remember("a", FOUND) is None
    assert recall("a") is None


def test_targets_are_equal_if_only_tuned_settings_differ() -> None:
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


def test_rollouts_of_another_size_are_another_target() -> None:
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
