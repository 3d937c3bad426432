"""Short names of groups of runs: what sets each apart from the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from briskrl.cluster.groups import RunGroup
from briskrl.cluster.run_settings import describe_settings, differing
from briskrl.plots.rows import LONGEST_NAME


def name_groups(groups: Sequence[RunGroup], labels: Sequence[str] = ()) -> list[RunGroup]:
    """The groups with names that are all different: the labels, or what sets them apart.

    Environment and algorithm are in the names if they differ between groups; settings, if they
    differ between groups of the same environment and algorithm.
    """
    names = list(labels) or _with_numbers(groups, _distinct(groups))
    return [replace(group, name=name) for group, name in zip(groups, names, strict=True)]


def own_differences(group: RunGroup, groups: Sequence[RunGroup]) -> list[str]:
    """Names of the settings that differ between the groups of this environment and algorithm."""
    return differing([g.settings for g in groups if (g.env, g.algo) == (group.env, group.algo)])


def hidden_differences(groups: Sequence[RunGroup]) -> list[str]:
    """Settings of runs and environments that differ between algorithms, and are in no name."""
    named = {name for group in groups for name in own_differences(group, groups)}
    tables = ["algo_config"]
    if len({group.env for group in groups}) > 1:
        tables.append("env_config")
    return [
        name.rpartition(".")[2]
        for name in differing([group.settings for group in groups])
        if name not in named
        and name not in ("env", "algo")
        and name.partition(".")[0] not in tables
    ]


def _distinct(groups: Sequence[RunGroup]) -> list[str]:
    """What sets the groups apart, then their sweep, then a number."""
    names = [describe_group(group, groups) for group in groups]
    counts = Counter(names)
    names = [
        f"{name} in {group.sweep}" if counts[name] > 1 and group.sweep else name
        for group, name in zip(groups, names, strict=True)
    ]
    seen: Counter[str] = Counter()
    for index, name in enumerate(names):
        seen[name] += 1
        if seen[name] > 1:
            names[index] = f"{name} #{seen[name]}"
    return names


def describe_group(group: RunGroup, groups: Sequence[RunGroup]) -> str:
    """What sets a group apart from the others, at any length; not always different from all."""
    several_algos = len({other.algo for other in groups}) > 1
    parts = [group.algo] if several_algos else []
    if len({other.env for other in groups}) > 1:
        parts = [" on ".join([*parts, group.env])]
    settings = describe_settings(group.settings, own_differences(group, groups))
    parts += [settings] if settings else []
    parts = parts or [group.algo]
    # In front, where charts do not cut it off.
    return ", ".join(["confirmed", *parts] if group.confirms else parts)


def _with_numbers(groups: Sequence[RunGroup], names: list[str]) -> list[str]:
    """The names, numbered if charts would cut one of them; trials by their own numbers."""
    if all(len(name) <= LONGEST_NAME for name in names):
        return names
    if len({group.sweep for group in groups}) > 1 or not groups[0].sweep:
        return [f"{number}: {name}" for number, name in enumerate(names, 1)]
    return [f"{group.trial}: {name}" for group, name in zip(groups, names, strict=True)]
