"""`brisk export` writes verified files, and reports them for people and machines."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pytest

import briskrl
from briskrl.cli.main import main
from briskrl.export.runtime import load_bundle
from briskrl.training.loop import train
from tests.training.runs import small_config


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of both engines with different networks, observations and actions."""
    folder = tmp_path_factory.mktemp("runs")
    fire = {"height": 5, "width": 6, "landscapes": 2, "n_weather": 1, "n_fires": 2, "obs_fires": 4}
    train(small_config(folder / "fused", "rainbow", env="cartpole", engine="fused", steps=1500))
    train(
        small_config(
            folder / "torch",
            "ppo",
            env="wildfire",
            engine="torch",
            steps=600,
            env_config={**fire, "cells_per_step": 3},
            algo_config={"channels": (4, 4)},
        )
    )
    continuous = {"env": "gym:Pendulum-v1", "env_config": {"backend": "sync"}, "steps": 600}
    train(small_config(folder / "box", "ppo", **continuous))
    return folder


def export(capsys, *words):
    assert main(["export", *map(str, words), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["fused", "torch", "box"])
@pytest.mark.parametrize("to", ["onnx", "torchscript", "bundle"])
def test_exports_of_trained_runs_are_verified(runs, name, to, capsys):
    found = export(capsys, runs / name, "--to", to, "--observations", 300, "--episodes", 5)
    assert found["observations"] == 300
    assert found["max_difference"] < 1e-4
    assert all((runs / name / "export").as_posix() in file for file in found["files"])
    assert len(found["files"]) == (4 if to == "bundle" else 1)
    if to == "bundle":
        assert found["evaluation"]["episodes"] == 5


def test_an_onnx_file_plays_without_briskrl(runs, tmp_path, capsys):
    file = tmp_path / "out" / "pole.onnx"
    export(capsys, runs / "fused", "--output", file, "--observations", 50)
    session = onnxruntime.InferenceSession(str(file))
    policy = briskrl.load_policy(runs / "fused")
    obs = np.random.default_rng(0).uniform(-0.2, 0.2, (20, 4)).astype(np.float32)
    action, values = session.run(["action", "values"], {"obs": obs})
    np.testing.assert_array_equal(action, policy.act(obs))
    np.testing.assert_allclose(values, policy.outputs(obs)["values"], atol=1e-5)


def test_a_bundle_describes_itself(runs, tmp_path, capsys):
    folder = tmp_path / "bundle"
    for _ in range(2):  # The second one replaces the first.
        export(capsys, runs / "torch", "--to", "bundle", "-o", folder, "--observations", 50)
    text = (folder / "README.md").read_text()
    assert "# ppo on wildfire" in text
    assert "over 100 fresh episodes" in text
    assert "| `env_config.cells_per_step` | `3` |" in text
    command = next(line for line in text.splitlines() if line.startswith("brisk train wildfire"))
    assert " --steps 600 " in command
    assert " --cells-per-step 3 " in command
    assert '"mask": mask[None]' in text
    policy = load_bundle(folder)
    legal = np.zeros(30, bool)
    legal[[3, 8]] = True
    assert sorted(policy.act(np.zeros(policy.obs.shape), legal)) == [-1, 3, 8]


def test_people_read_what_was_written(runs, capsys):
    assert main(["export", str(runs / "fused"), "--observations", "70"]) == 0
    out = capsys.readouterr().out
    assert "policy.onnx" in out
    assert "verified on 70 observations of cartpole: maximum difference" in out


def test_mistakes_are_explained(runs, tmp_path, capsys, monkeypatch):
    assert main(["export", str(runs / "fused"), "--to", "tflite"]) == 2
    assert "onnx" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    full = str(tmp_path / "full")
    assert main(["export", str(runs / "fused"), "--to", "bundle", "--output", full]) == 2
    assert "no exported bundle" in capsys.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    assert main(["export", str(runs / "fused")]) == 2
    assert "pip install 'briskrl[export]'" in capsys.readouterr().err
