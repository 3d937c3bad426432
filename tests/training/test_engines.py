"""Engines are interchangeable: same files, any engine resumes, equal seeds are bit-identical."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from briskrl.core.errors import ConfigError
from briskrl.training.evaluate import evaluate
from briskrl.training.loop import resume, train
from briskrl.training.reporter import SilentReporter
from briskrl.training.resolve import load_config
from briskrl.training.storage.checkpoint import list_checkpoints
from tests.training.runs import policy_hash, small_config

PRESETS = ["dqn", "rainbow", "ppo"]
OTHER = {"fused": "torch", "torch": "fused"}


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []

    def on_note(self, text):
        self.notes.append(text)


def layout(checkpoint: Path) -> dict[str, object]:
    """Names, shapes and types of everything that a checkpoint holds."""
    found: dict[str, object] = {}
    for path in sorted(checkpoint.rglob("*")):
        name = str(path.relative_to(checkpoint))
        found[name] = path.is_dir()
        if path.suffix == ".safetensors":
            with safe_open(path, "numpy") as file:
                for key in file.keys():  # noqa: SIM118
                    part = file.get_slice(key)
                    found[f"{name}:{key}"] = (tuple(part.get_shape()), part.get_dtype())
    return found


@pytest.mark.parametrize("preset", PRESETS)
def test_checkpoints_of_both_engines_have_the_same_names_and_layout(tmp_path, preset):
    layouts = []
    for engine in ("fused", "torch"):
        train(small_config(tmp_path / engine, preset, engine=engine, steps=960))
        (newest, *_) = list_checkpoints(tmp_path / engine / "checkpoints")
        layouts.append(layout(newest))
    assert len(layouts[0]) > 10
    assert layouts[0] == layouts[1]


def parameters(run_dir: Path) -> np.ndarray:
    arrays = load_file(run_dir / "policy" / "model.safetensors")
    return np.concatenate([arrays[name].reshape(-1) for name in sorted(arrays)])


@pytest.mark.parametrize("engine", ["fused", "torch"])
@pytest.mark.parametrize("preset", PRESETS)
def test_either_engine_resumes_a_run_of_the_other(tmp_path, preset, engine):
    """After a few more updates both have moved to the same place, up to rounding."""
    train(small_config(tmp_path / "same", preset, engine=engine, steps=960))
    begun = parameters(tmp_path / "same")
    shutil.copytree(tmp_path / "same", tmp_path / "other")
    same = resume(tmp_path / "same", steps=1152)
    notes = Notes()
    other = resume(tmp_path / "other", steps=1152, engine=OTHER[engine], reporter=notes)
    assert other.updates == same.updates > 0
    assert f"engine {OTHER[engine]}" in " ".join(notes.notes)
    assert load_config(tmp_path / "other" / "config.toml").engine == OTHER[engine]
    ends = [parameters(tmp_path / name) for name in ("same", "other")]
    way = np.abs(ends[0] - begun).mean()
    assert way > 0
    assert np.abs(ends[0] - ends[1]).mean() < 0.02 * way


def test_a_run_may_switch_engines_repeatedly_and_still_learns(tmp_path):
    config = small_config(tmp_path / "run", "ppo", engine="fused", steps=4000, num_envs=64)
    train(config)
    for k, engine in enumerate(("torch", "fused", "torch", "auto")):
        result = resume(tmp_path / "run", steps=4000 * (k + 2), engine=engine)
    assert result.env_steps >= 20_000
    assert evaluate(tmp_path / "run", episodes=20, seed=1).episodes == 20


def test_a_resume_with_engine_auto_keeps_the_engine(tmp_path):
    train(small_config(tmp_path / "run", engine="torch", steps=640))
    resume(tmp_path / "run", steps=960, engine="auto")
    # Asked again, the warm-up would choose the fused engine here.
    notes = Notes()
    resume(tmp_path / "run", steps=1280, reporter=notes)
    assert "engine torch, as before" in " ".join(notes.notes)


def test_engine_auto_reports_its_choice_and_the_reason(tmp_path):
    notes = Notes()
    train(small_config(tmp_path / "vectors", steps=320), reporter=notes)
    assert "times as fast as" in " ".join(notes.notes)
    notes = Notes()
    options = {"env_config": {"obs": "grid"}, "algo_config": {"channels": (4,), "net": (16,)}}
    train(small_config(tmp_path / "planes", steps=320, **options), reporter=notes)
    assert "engine torch and not fused: " in " ".join(notes.notes)
    assert "convolutional" in " ".join(notes.notes)


def test_the_fused_engine_raises_for_networks_it_cannot_compute(tmp_path):
    options = {"env_config": {"obs": "grid"}, "algo_config": {"channels": (4,), "net": (16,)}}
    with pytest.raises(ConfigError, match=r"--engine fused cannot be used: .*convolutional"):
        train(small_config(tmp_path / "run", engine="fused", **options))
    assert list(tmp_path.iterdir()) == []


VARIANTS = [
    ("dqn", {"threads": 2}),
    ("rainbow", {"threads": 2}),
    ("ppo", {"threads": 2, "num_envs": 64, "algo_config": {"minibatch_size": 768}}),
    ("dqn", {"overlap": True}),
    ("rainbow", {"overlap": True}),
    ("dqn", {"overlap": True, "threads": 2}),
]


# The next test shows the same, and that a resume changes nothing.
@pytest.mark.slow
@pytest.mark.parametrize(("preset", "options"), VARIANTS, ids=str)
def test_equal_seeds_are_bit_identical_on_two_threads(tmp_path, preset, options):
    for name in ("first", "second"):
        train(small_config(tmp_path / name, preset, engine="fused", **options))
    assert policy_hash(tmp_path / "first") == policy_hash(tmp_path / "second")


@pytest.mark.parametrize(("preset", "options"), VARIANTS, ids=str)
def test_a_resumed_run_on_two_threads_is_bit_identical_to_an_uninterrupted_one(
    tmp_path, preset, options
):
    steps = 3000 if options.get("num_envs") is None else 6000
    whole = small_config(tmp_path / "whole", preset, engine="fused", **{**options, "steps": steps})
    train(whole)
    train(small_config(tmp_path / "parts", preset, engine="fused", **{**options, "steps": 1600}))
    resume(tmp_path / "parts", steps=steps)
    assert policy_hash(tmp_path / "parts") == policy_hash(tmp_path / "whole")
    files = [(tmp_path / name / "episodes.csv").read_text() for name in ("whole", "parts")]
    assert files[0] == files[1]


def test_the_engine_can_be_chosen_on_the_command_line(tmp_path, capsys):
    from briskrl.cli.main import main

    run = str(tmp_path / "run")
    small = ["--steps", "640", "--num-envs", "16", "--net", "16", "--learning-starts", "100"]
    assert main(["train", "snake", "--engine", "fused", "--run-dir", run, *small, "--json"]) == 0
    capsys.readouterr()
    assert main(["resume", run, "--engine", "torch", "--steps", "960", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env_steps"] == 960
    assert load_config(tmp_path / "run" / "config.toml").engine == "torch"
