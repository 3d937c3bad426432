"""The choice of the engine: what is requested, what is possible, and the reason if it is not."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from tests.algos import rollouts, transitions

PLANES = {"shape": (2, 4, 4), "dtype": np.uint8}


def test_the_requested_engine_is_used(engine):
    assert transitions.make(transitions.small(), engine=engine).engines.name == engine
    assert rollouts.make(engine=engine).engines.name == engine


def test_torch_is_the_default_engine():
    assert transitions.make(transitions.small()).engines.candidates == ("torch",)
    assert rollouts.make().engines.candidates == ("torch",)


def test_auto_offers_both_engines_if_both_can_compute_the_network():
    for algo in (
        transitions.make(transitions.small(), engine="auto"),
        rollouts.make(engine="auto"),
    ):
        assert algo.engines.candidates == ("fused", "torch")
        assert algo.engines.refusal is None


@pytest.mark.parametrize("how", [{"amp": True}, {"compile": True}], ids=str)
def test_auto_is_torch_with_amp_or_compile(how):
    for algo in (
        transitions.make(transitions.small(), engine="auto", **how),
        rollouts.make(engine="auto", **how),
    ):
        assert algo.engines.candidates == ("torch",)
        assert "half precision" in algo.engines.refusal


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda engine: transitions.make(
                transitions.small(channels=(4,)), transitions.spec(**PLANES), engine=engine
            ),
            "convolutional",
        ),
        (lambda engine: rollouts.make(env=rollouts.spec(**PLANES), engine=engine), "convolutional"),
        (
            lambda engine: rollouts.make(env=rollouts.spec("continuous"), engine=engine),
            "continuous",
        ),
    ],
    ids=["values of planes", "policy of planes", "continuous actions"],
)
def test_networks_that_the_fused_engine_cannot_compute_use_torch_with_a_reason(make, why):
    algo = make("auto")
    assert algo.engines.name == "torch"
    assert why in algo.engines.refusal
    with pytest.raises(ConfigError, match=f"--engine fused cannot be used: .*{why}"):
        make("fused")


def test_the_fused_engine_computes_flattened_planes():
    config = transitions.small(body="mlp")
    assert transitions.make(config, transitions.spec(**PLANES), engine="fused").engines.name
