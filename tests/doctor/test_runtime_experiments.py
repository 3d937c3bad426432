"""Which backends are tested for training on Gymnasium environments."""

from __future__ import annotations

from briskrl.doctor.experiments.base import Experiment, Skipped
from briskrl.doctor.experiments.runtime import backends
from briskrl.doctor.variants import VariantFactory
from briskrl.training.config import TrainConfig
from briskrl.training.resolve import complete


def tried(env: str, backend: str, *notes: str) -> list[Experiment | Skipped]:
    config = TrainConfig(env=env, algo="ppo", num_envs=4, env_config={"backend": backend})
    return list(backends(VariantFactory(complete(config), env_notes=list(notes))))


def test_a_compiled_version_is_tested_if_there_is_one() -> None:
    found = tried("gym:CartPole-v1", "sync")
    assert [trial.name for trial in found] == [
        "backend compiled",
        "backend process",
        "backend async",
    ]
    assert isinstance(found[0], Experiment)
    assert found[0].changes == {"env_config.backend": "compiled"}
    names = [trial.name for trial in tried("gym:MountainCar-v0", "process")]
    assert names == ["backend sync", "backend async"]


def test_compiled_environments_are_not_tested_with_other_backends() -> None:
    chosen = tried("gym:CartPole-v1", "auto", "backend auto: something was found, so compiled.")
    for found in (chosen, tried("gym:CartPole-v1", "compiled")):
        (trial,) = found
        assert isinstance(trial, Skipped)
        assert "compiled code" in trial.why
