"""Numbers that are not finite end training, and no checkpoint ever holds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import DivergedError
from briskrl.training.loop import resume, train
from briskrl.training.recorder import RunRecorder
from briskrl.training.storage.checkpoint import list_checkpoints
from briskrl.training.storage.safetensors_io import read_tensors
from briskrl.training.trainer import Trainer
from tests.training.runs import small_config

STEPS, PLANT_AT = 1600, 1000
"""Transitions of a run, and those after which a number is planted."""


def model_of(trainer: Trainer) -> Any:
    return trainer.algo.model  # type: ignore[attr-defined]


def plant_weights(trainer: Trainer, value: float) -> None:
    model = model_of(trainer)
    flat = model.flat if trainer.config.algo == "ppo" else model.online_flat
    flat.values[3] = value
    trainer.algo.engines.now.refresh()


def plant_gradient_mean(trainer: Trainer, value: float) -> None:
    model_of(trainer).optimizer.adam.mean[3] = value


def plant_gradient_variance(trainer: Trainer, value: float) -> None:
    model_of(trainer).optimizer.adam.variance[3] = value


def arrays_of(trainer: Trainer) -> dict[str, Any]:
    memory: Any = trainer.memory
    if trainer.config.algo == "ppo":
        return memory._arrays
    return getattr(memory, "_replay", memory).ring.dense


def plant_rewards(trainer: Trainer, value: float) -> None:
    arrays_of(trainer)["reward"].reshape(-1)[:200] = value


def plant_observations(trainer: Trainer, value: float) -> None:
    arrays_of(trainer)["obs"].reshape(-1)[:2000] = value


Place = Callable[[Trainer, float], None]
PLACES: list[tuple[Place, float]] = [
    (plant_weights, np.nan),
    (plant_gradient_mean, np.nan),
    # Unlike NaN, it only makes steps vanish; nothing else would notice it.
    (plant_gradient_variance, np.inf),
    (plant_rewards, np.nan),
    (plant_observations, np.inf),
]


class PlantOnce:
    """A hook that plants a number once the run has come far enough."""

    def __init__(self, place: Place, value: float) -> None:
        self.place, self.value, self.done = place, value, False

    def __call__(self, recorder: RunRecorder) -> None:
        if not self.done and recorder.trainer.counters.env_steps >= PLANT_AT:
            self.done = True
            self.place(recorder.trainer, self.value)


def check_all_finite(run: Path) -> None:
    checkpoints = list_checkpoints(run / "checkpoints")
    assert checkpoints
    for path in [*checkpoints, run / "policy"]:
        for file in path.rglob("*.safetensors"):
            for name, array in read_tensors(file).items():
                if array.dtype.kind == "f":
                    assert np.isfinite(array).all(), (file, name)


@pytest.mark.parametrize(("place", "value"), PLACES)
@pytest.mark.parametrize("engine", ["fused", "torch"])
@pytest.mark.parametrize("algo", ["dqn", "per-dqn", "ppo"])
def test_a_planted_number_ends_training_and_is_not_saved(
    tmp_path: Path, algo: str, engine: Any, place: Place, value: float
):
    run = tmp_path / "run"
    options = {"engine": engine, "steps": STEPS, "checkpoint_steps": 160, "warmup": False}
    planted = PlantOnce(place, value)
    with pytest.raises(DivergedError, match="not finite"):
        train(small_config(run, algo, env="cartpole", **options), hooks=[planted])
    assert planted.done
    check_all_finite(run)


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_nan_rewards_end_training_whose_updates_come_in_rounds(tmp_path: Path, engine: Any):
    # As in the zoo's settings. A round overwrites a quarter of the buffer before it samples it, so
    # the whole buffer has NaN.
    def plant_all_rewards(trainer: Trainer, value: float) -> None:
        arrays_of(trainer)["reward"].fill(value)

    run = tmp_path / "run"
    options = {"engine": engine, "steps": STEPS, "checkpoint_steps": 160, "warmup": False}
    planted = PlantOnce(plant_all_rewards, np.nan)
    rounds = {"update_every": 16, "n_step": 3}
    with pytest.raises(DivergedError, match="not finite"):
        train(
            small_config(run, "dqn", env="cartpole", algo_config=rounds, **options),
            hooks=[planted],
        )
    assert planted.done
    check_all_finite(run)


def test_a_run_that_diverged_goes_on_from_its_last_checkpoint(tmp_path: Path):
    options = {"steps": STEPS, "checkpoint_steps": 160, "warmup": False}
    config = small_config(tmp_path / "run", "dqn", env="cartpole", **options)
    with pytest.raises(DivergedError, match="not finite"):
        train(config, hooks=[PlantOnce(plant_weights, np.nan)])
    assert resume(tmp_path / "run").env_steps >= STEPS
    check_all_finite(tmp_path / "run")
