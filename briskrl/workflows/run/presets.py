"""Well-known settings and evaluation suites of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from briskrl.core.errors import ConfigError, nearest
from briskrl.workflows.run.evaluation_plan import Scenario

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "cage2": {"task": "cage2"},
    "cage2-parity": {
        "task": "cage2",
        "warm_start": "last",
        "algo_config": {
            "lr": 2e-3,
            "adam_beta2": 0.99,
            "gae_lambda": 1.0,
            "minibatch_size": 1 << 20,
        },
        "stop": {"stop_rule": "gate"},
    },
    "cage2-joint": {
        "task": "cage2",
        "env_config": {
            "alignment_mode": "adaptive",
            "lambda_scope": "workflow",
            "alignment_lambda": 3.0,
            "violation_weight": 19.0,
            "compliance_threshold": 0.97,
            "task_config": {"restore_memory": True, "event_memory": True},
        },
        "algo_config": {"lr": 2e-3, "lr_schedule": "linear", "entropy_coef": 0.003},
    },
}
"""Settings by name. Those of `cage2-parity` are of published code: training ends as soon as a
workflow is obeyed, and goes on from the workflow before. Those of `cage2-joint` are for one policy
under all workflows: each has its own lambda, and observations remember repairs and alerts."""

DEFAULT_SUITE = "train-attacker"
_ATTACKERS, _LENGTHS = ("bline", "meander", "sleep"), (30, 50, 100)
_SUITES: Mapping[str, Mapping[str, tuple[Scenario, ...]]] = {
    "cage2": {
        "leaderboard": tuple(
            Scenario({"red": red, "length": length})
            for red, length in product(_ATTACKERS, _LENGTHS)
        )
    }
}


def find_preset(name: str) -> Mapping[str, Any]:
    """The settings of a preset.

    Raises:
        ConfigError: There is no such preset.
    """
    if name not in PRESETS:
        raise ConfigError(f"There is no preset {name!r}. {nearest(name, PRESETS)}")
    return PRESETS[name]


def find_suite(task: str, name: str) -> tuple[Scenario, ...]:
    """The scenarios of an evaluation suite of a task.

    Raises:
        ConfigError: The task has no such suite.
    """
    suites = {DEFAULT_SUITE: (Scenario(),), **_SUITES.get(task, {})}
    if name not in suites:
        raise ConfigError(f"The task {task!r} has no suite {name!r}. {nearest(name, suites)}")
    return suites[name]
