"""Which engine computes: what is asked for, what is possible, and what is said otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import ConfigError
from tests.algos import rollouts, transitions

PLANES = {"shape": (2, 4, 4), "dtype": np.uint8}


def test_the_engine_that_is_asked_for_computes(engine):
    assert transitions.make(transitions.small(), engine=engine).engines.name == engine
    assert rollouts.make(engine=engine).engines.name == engine


def test_torch_computes_unless_something_else_is_asked_for():
    assert transitions.make(transitions.small()).engines.candidates == ("torch",)
    assert rollouts.make().engines.candidates == ("torch",)


def test_auto_leaves_the_choice_where_there_is_one():
    for algo in (
        transitions.make(transitions.small(), engine="auto"),
        rollouts.make(engine="auto"),
    ):
        assert algo.engines.candidates == ("fused", "torch")
        assert algo.engines.refusal is None


@pytest.mark.parametrize("how", [{"amp": True}, {"compile": True}], ids=str)
def test_auto_is_torch_where_the_fused_engine_has_no_such_precision_or_compiler(how):
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
def test_networks_beyond_the_fused_engine_are_torchs_and_it_says_why(make, why):
    algo = make("auto")
    assert algo.engines.name == "torch"
    assert why in algo.engines.refusal
    with pytest.raises(ConfigError, match=f"--engine fused cannot be used: .*{why}"):
        make("fused")


def test_planes_that_are_flattened_are_within_the_fused_engine():
    config = transitions.small(body="mlp")
    assert transitions.make(config, transitions.spec(**PLANES), engine="fused").engines.name
