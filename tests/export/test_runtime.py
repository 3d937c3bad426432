"""Bundles are read with NumPy alone, and damaged ones are named."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from briskrl.core.errors import BriskError, RunFolderError
from briskrl.export.bundle import write_policy
from briskrl.export.runtime import load_bundle
from briskrl.export.trained_network import network_of
from tests.cli.conftest import environment
from tests.export.policies import random_observations, random_policy


@pytest.fixture
def bundle(tmp_path):
    trained = random_policy("ppo")
    network = network_of(trained.agent.policy)
    write_policy(tmp_path, trained, network.lower(), network.kind, has_mask=False)
    return tmp_path, trained


SCRIPT = """
import sys
import briskrl.export.runtime as runtime
policy = runtime.load_bundle(sys.argv[1])
actions = policy.act([[0.5] * 7, [-0.5] * 7]).tolist()
heavy = {"torch", "numba", "gymnasium", "safetensors", "msgspec", "onnx", "onnxruntime", "rich"}
print(actions, sorted(heavy & set(sys.modules)))
"""


def test_the_runtime_needs_numpy_alone(bundle):
    folder, trained = bundle
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=True, timeout=120
    )
    obs = np.array([[0.5] * 7, [-0.5] * 7], np.float32)
    expected = trained.agent.policy.act(obs, None).tolist()
    assert done.stdout.strip() == f"{expected} []"


def test_a_bundle_acts_like_the_policy(bundle):
    folder, trained = bundle
    policy = load_bundle(folder)
    obs = random_observations(trained, 500, masked=False).obs
    np.testing.assert_array_equal(policy.act(obs), trained.agent.policy.act(obs, None))
    assert (policy.env, policy.action) == ("cartpole", trained.action)


def change(folder, edit):
    path = folder / "policy.json"
    about = json.loads(path.read_text())
    edit(about)
    path.write_text(json.dumps(about))


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        (lambda about: about.update(format=2), "its format is 2"),
        (lambda about: about.update(kind="q"), "the kind 'q'"),
        (lambda about: about.pop("action"), "damaged"),
        (lambda about: about["program"][1].update(name="exec"), "'exec' is unknown"),
        (lambda about: about["program"][1].update(inputs=["later"]), "has the inputs"),
        (lambda about: about["program"][1]["weights"].update(weight="x"), "x are missing"),
        (lambda about: about["program"][1]["weights"].pop("bias"), "needs"),
        (lambda about: about.update(program={}), "not a list"),
        (lambda about: about["program"].__setitem__(0, 3), "operation 0"),
    ],
)
def test_damaged_descriptions_are_named(bundle, edit, problem):
    folder, _ = bundle
    change(folder, edit)
    with pytest.raises(RunFolderError, match=problem):
        load_bundle(folder)


def test_damaged_weights_are_named(bundle):
    folder, _ = bundle
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    for damaged in (data[:-8], data[:20], b"", b"\xff" * 64, data[:8] + b"}" + data[9:]):
        weights.write_bytes(damaged)
        with pytest.raises(RunFolderError, match="damaged"):
            load_bundle(folder)
    weights.unlink()
    with pytest.raises(RunFolderError, match="brisk export"):
        load_bundle(folder)


def test_only_single_looks_are_possible_without_a_memory(tmp_path):
    trained = random_policy("ppo")
    network = network_of(trained.agent.policy)
    trained.about.update(env="cage2", env_config={"frames": 2})
    write_policy(tmp_path, trained, network.lower(), network.kind, has_mask=False)
    assert load_bundle(tmp_path, memory=False).outputs(np.zeros(7))["action"].shape == (1,)
    # The settings of its environment are incomplete.
    with pytest.raises(BriskError, match="damaged"):
        load_bundle(tmp_path)
