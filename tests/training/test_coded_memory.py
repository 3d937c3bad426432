"""Replay buffers that store codes: the same results in a fraction of the bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from briskrl.envs.wildfire.config import WildfireConfig
from briskrl.training.config import Stage
from briskrl.training.loop import resume, train
from briskrl.training.reporter import SilentReporter
from briskrl.training.resolve import complete
from briskrl.training.trainer import Trainer
from tests.training.runs import policy_hash, small_config

WORLD = WildfireConfig(
    height=5, width=6, landscapes=3, budget_frac=0.15, n_weather=1, n_fires=2, obs_fires=4
)
ALGO = {"channels": (4, 4), "net": (8,), "buffer_size": 256, "n_step": 2}


def config(tmp_path, name, preset, steps=480, world=WORLD):
    algo = ALGO if preset.endswith("dqn") else {"channels": (4, 4), "net": (8,)}
    return small_config(
        tmp_path / name, preset, env="wildfire", env_config=world, algo_config=algo, steps=steps
    )


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("preset", ["dqn", "per-dqn"])
def test_storing_codes_does_not_change_the_parameters(tmp_path, monkeypatch, preset):
    said = Notes()
    train(config(tmp_path, "coded", preset), reporter=said)
    assert any(note.startswith("memory: 256 transitions in 0 MB (16 bytes") for note in said.notes)
    monkeypatch.setattr(Trainer, "_codec", None)
    silent = Notes()
    train(config(tmp_path, "whole", preset), reporter=silent)
    assert not any(note.startswith("memory:") for note in silent.notes)
    assert policy_hash(tmp_path / "coded") == policy_hash(tmp_path / "whole")


@pytest.mark.parametrize("cells", [1, 3])
@pytest.mark.parametrize("preset", ["dqn", "per-dqn", "ppo"])
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(tmp_path, preset, cells):
    whole = config(tmp_path, "whole", preset, world=replace(WORLD, cells_per_step=cells))
    train(whole)
    train(replace(whole, run_dir=str(tmp_path / "parts"), steps=320))
    resume(tmp_path / "parts", steps=480)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")


def test_curriculum_stages_with_different_landscapes_store_whole_observations(tmp_path):
    stages = (Stage(env={"first_landscape": 7}, until="steps", value=240),)
    trainer = Trainer(complete(replace(config(tmp_path, "run", "dqn"), curriculum=stages)))
    assert trainer.memory_note is None
    assert trainer.memory.ring.obs.shape[1] == 15 * 30
    trainer.close()
