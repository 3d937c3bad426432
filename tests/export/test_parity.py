"""Exports of every algorithm, network and action space act like the policy itself."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.registry import ALGOS
from briskrl.core.errors import ConfigError
from briskrl.core.spec import BoxSpec, MultiDiscreteSpec
from briskrl.export import bundle
from briskrl.export.bundle import write_policy
from briskrl.export.onnx_file import write_onnx
from briskrl.export.selection import ActionSelector
from briskrl.export.torchscript import write_torchscript
from briskrl.export.trained_network import network_of
from briskrl.export.verify import (
    ExportError,
    bundle_runner,
    max_difference,
    onnx_runner,
    torchscript_runner,
)
from tests.export.policies import CASES, random_observations, random_policy

COUNT = 200


def test_every_algorithm_is_among_the_cases():
    assert {preset for preset, *_ in CASES.values()} == set(ALGOS)


@pytest.fixture(params=CASES)
def case(request):
    trained = random_policy(request.param)
    return trained, network_of(trained.agent.policy)


@pytest.mark.parametrize("masked", [False, True])
def test_every_format_agrees_with_the_policy(case, masked, tmp_path):
    trained, network = case
    if masked and isinstance(trained.action, BoxSpec):
        pytest.skip("continuous actions have no masks")
    seen = random_observations(trained, COUNT, masked=masked)
    spaces = (trained.obs, trained.action)
    lowered = network.lower()
    onnx, script = tmp_path / "policy.onnx", tmp_path / "policy.pt"
    write_onnx(onnx, lowered, *spaces, network.kind, has_mask=masked, notes={"env": "x"})
    write_torchscript(script, network, *spaces, has_mask=masked)
    write_policy(tmp_path, trained, lowered, network.kind, has_mask=masked)
    runs = onnx_runner(onnx), torchscript_runner(script), bundle_runner(tmp_path)
    outputs = [run(seen.obs, seen.mask) for run in runs]
    for run, found in zip(runs, outputs, strict=True):
        assert max_difference(run, trained, network, seen) < 3e-5
        assert found["action"].dtype == outputs[0]["action"].dtype
        assert {name: array.shape for name, array in found.items()} == {
            name: array.shape for name, array in outputs[0].items()
        }
    if network.kind != "gaussian":
        # Random weights give clear winners: the same actions, not only equally good ones.
        chosen = trained.agent.policy.act(seen.obs, seen.mask)
        for found in outputs:
            assert (found["action"] == chosen).mean() > 0.99


@pytest.mark.parametrize("name", ["ppo", "ppo several", "ppo subset"])
def test_probabilities_are_those_of_legal_actions(name):
    trained = random_policy(name)
    network = network_of(trained.agent.policy)
    seen = random_observations(trained, COUNT, masked=True)
    selector = ActionSelector(trained.action, network.kind)
    found = selector.outputs(network.score(seen.obs), seen.mask)["probabilities"]
    groups = len(trained.action.nvec) if isinstance(trained.action, MultiDiscreteSpec) else 1
    np.testing.assert_allclose(found.sum(axis=1), groups, rtol=1e-5)
    legal = seen.mask[1:]
    if groups == 1:
        rows = legal.any(axis=1)
        assert (found[1:][rows][~legal[rows]] == 0).all()


def test_a_wrong_export_is_an_error():
    trained = random_policy("ppo")
    network = network_of(trained.agent.policy)
    seen = random_observations(trained, COUNT, masked=False)
    other = network_of(random_policy("ppo", seed=1).agent.policy)
    selector = ActionSelector(trained.action, "logits")

    def wrong(obs, mask):
        return selector.outputs(other.score(obs), mask)

    with pytest.raises(ExportError, match="differs from that of the run"):
        max_difference(wrong, trained, network, seen)

    def slightly_wrong(obs, mask):
        found = selector.outputs(network.score(obs), mask)
        found["probabilities"] = found["probabilities"] + 2e-4
        return found

    with pytest.raises(ExportError, match=r"by 0\.0002"):
        max_difference(slightly_wrong, trained, network, seen)

    def other_actions(obs, mask):
        found = selector.outputs(network.score(obs), mask)
        found["action"] = (found["action"] + 1) % 4
        return found

    with pytest.raises(ExportError):
        max_difference(other_actions, trained, network, seen)


def test_onnx_files_pin_their_opset_and_describe_themselves(tmp_path):
    import onnx

    trained = random_policy("dqn cnn")
    network = network_of(trained.agent.policy)
    path = tmp_path / "policy.onnx"
    spaces = (trained.obs, trained.action)
    write_onnx(path, network.lower(), *spaces, "values", has_mask=True, notes={"env": "snake"})
    model = onnx.load(path)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 17)]
    assert {entry.key: entry.value for entry in model.metadata_props} == {"env": "snake"}
    inputs = {value.name: value.type.tensor_type for value in model.graph.input}
    assert inputs["obs"].elem_type == onnx.TensorProto.UINT8
    assert inputs["mask"].elem_type == onnx.TensorProto.BOOL
    assert [value.name for value in model.graph.output] == ["action", "probabilities", "values"]


def test_a_bundle_replaces_nothing_but_a_bundle(tmp_path):
    folder = tmp_path / "mine"
    bundle.check_folder(folder)
    folder.mkdir()
    bundle.check_folder(folder)
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="no exported bundle"):
        bundle.check_folder(folder)
