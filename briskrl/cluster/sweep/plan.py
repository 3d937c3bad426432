"""The plan of a sweep, checked before anything runs: trials of a grid, or the space of a search."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from briskrl.cluster.sweep.folder import ROOT, SweepInfo, config_layer
from briskrl.cluster.sweep.keys import (
    Key,
    Sections,
    describe,
    find_key,
    find_keys,
    layer_of,
    sections_of,
    values_of,
)
from briskrl.cluster.sweep.search import check_installed
from briskrl.cluster.sweep.space import (
    Choice,
    Dimension,
    Range,
    dimension_of_choice,
    dimension_of_range,
)
from briskrl.core.config import config_error
from briskrl.core.config_file import Layer
from briskrl.core.errors import ConfigError
from briskrl.training.resolve import complete, resolve

if TYPE_CHECKING:
    from briskrl.cluster.settings import ExecutorConfig
    from briskrl.cluster.sweep.settings import SweepConfig
    from briskrl.core.types import JSON
    from briskrl.training.config import TrainConfig

MOST_TRIALS = 10_000
"""Trials of a grid; more would be a mistake, or a case for a search."""
Values = Mapping[str, "JSON"]
"""Values of fields, as plain data."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep will run."""

    trials: Sequence[Values]
    """Values of every trial of a grid; one without values for seeds alone; empty for a search."""
    space: Mapping[str, Dimension]
    """Dimensions of a search by the names of their keys."""
    keys: Mapping[str, Key]
    """Keys of the dimensions by their names."""

    def values(self, point: Mapping[str, Any]) -> dict[str, JSON]:
        """Values of fields for a point of the space: values by the names of keys."""
        return {
            field: value
            for name, chosen in point.items()
            for field, value in self.keys[name].fields(chosen).items()
        }


def sweep_info(
    config: TrainConfig,
    settings: SweepConfig,
    executor: ExecutorConfig,
    given: Layer | None = None,
) -> SweepInfo:
    """What a new sweep does; its folder is not created yet.

    Args:
        config: See `sweep`, as for the others.
        settings: What varies, and what is compared.
        executor: Where the runs are trained.
        given: The settings of `config` that were given.

    Raises:
        ConfigError: A setting cannot be used.
    """
    problems = [*settings.check(), *executor.check()]
    if problems:
        raise config_error(problems)
    if settings.search is not None:
        check_installed(settings.search)
    if executor.storage is not None and "://" not in executor.storage:
        # The sweep may be resumed from elsewhere.
        executor = replace(executor, storage=str(Path(executor.storage).absolute()))
    whole = complete(config)
    if whole.replicas > 1:
        raise ConfigError(
            "Many runs share the cores better as jobs of one process each (--jobs); --replicas is "
            "for a single run."
        )
    varies = {"env", "algo"} & {*settings.grid, *settings.choice}
    if not varies:
        base = config_layer(whole)
    else:
        # Settings that nobody gave depend on the environment and the algorithm of the trial.
        base = config_layer(config, without_defaults=True) if given is None else given
    folder = Path(settings.sweep_dir or ROOT)
    return SweepInfo(folder, base, replace(whole, run_dir=None), settings, executor)


def cpus_per_run(info: SweepInfo, plan: Plan) -> int:
    """Cores that a run keeps busy, at most."""
    configs = [info.config, *(trial_config(info, values) for values in plan.trials)]
    return max(config.num_threads + config.overlap for config in configs)


def make_plan(info: SweepInfo) -> Plan:
    """Check the keys and values of a sweep, and every trial of its grid.

    Raises:
        ConfigError: Something cannot be used.
    """
    settings = info.settings
    sections = sections_of(*_swept(info, settings.grid, settings.choice))
    given = {"--grid": settings.grid, "--range": settings.range, "--choice": settings.choice}
    keys = {key.given: key for key in find_keys(given, sections)}
    space: dict[str, Dimension] = {}
    for name, raw in settings.range.items():
        space[name] = dimension_of_range(keys[name], raw)
    for name, raw in settings.choice.items():
        space[name] = dimension_of_choice(keys[name], raw)
    plan = Plan([], space, keys)
    if settings.search is None:
        return replace(plan, trials=_grid(info, plan))
    _check_space(info, plan)
    return plan


def trial_config(info: SweepInfo, values: Values) -> TrainConfig:
    """The complete config of a trial, with the first of its seeds.

    Raises:
        ConfigError: The values cannot be used together.
    """
    sections = _sections(
        str(values.get("env", info.config.env)), str(values.get("algo", info.config.algo))
    )
    source = f"the trial {describe(values)}" if values else ""
    config = resolve([info.base, layer_of(values, sections, source)])
    return replace(config, seed=info.seeds[0], run_dir=None)


@cache
def _sections(env: str, algo: str) -> Sections:
    return sections_of([env], [algo])


def _swept(info: SweepInfo, *assigned: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The environments and the algorithms of all trials."""
    top = sections_of([], [])
    found = []
    for name, own in (("env", info.config.env), ("algo", info.config.algo)):
        given = [table[name] for table in assigned if name in table]
        key = find_key(name, top, "")
        found.append([value for raw in given for value in values_of(key, raw, name)] or [own])
    return found[0], found[1]


def _grid(info: SweepInfo, plan: Plan) -> list[Values]:
    """The values of every combination, each of which is a valid config."""
    grid = info.settings.grid
    columns = [values_of(plan.keys[name], raw, "--grid") for name, raw in grid.items()]
    count = math.prod(map(len, columns))
    if count > MOST_TRIALS:
        raise ConfigError(
            f"The grid has {count:,} combinations, more than {MOST_TRIALS:,}. Use fewer values, or "
            f"--search with --trials."
        )
    trials: list[Values] = [
        plan.values(dict(zip(grid, point, strict=True))) for point in product(*columns)
    ]
    for values in trials:
        trial_config(info, values)
    return trials


def _check_space(info: SweepInfo, plan: Plan) -> None:
    """Check both ends of ranges, every choice, and what the sampler can do.

    Raises:
        ConfigError: Something cannot be used.
    """
    for name, dimension in plan.space.items():
        if isinstance(dimension, Choice):
            for value in dimension.values.values():
                trial_config(info, plan.values({name: value}))
    settings, dimensions = info.settings, list(plan.space.values())
    if settings.search == "cmaes":
        _check_cmaes(plan)
    if not any(isinstance(dimension, Range) for dimension in dimensions):
        count = math.prod(len(one.values) for one in dimensions if isinstance(one, Choice))
        if settings.num_trials > count:
            raise ConfigError(
                f"--trials {settings.num_trials} is more than the {count} combinations of the "
                f"choices: use --grid, which tries each of them once, or fewer trials."
            )


def _check_cmaes(plan: Plan) -> None:
    choices = [name for name, one in plan.space.items() if isinstance(one, Choice)]
    if choices:
        raise ConfigError(
            f"--search cmaes searches numbers only, and {choices[0]} is a choice: use --search tpe."
        )
    if len(plan.space) < 2:
        raise ConfigError("--search cmaes needs two ranges or more: use --search tpe.")
