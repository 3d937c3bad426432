"""Tuned settings per environment and algorithm, as data in the package.

`<environment>.toml` has one table per algorithm. Its keys are those of a config file: settings of
the run at the top, `env_config` and `algo_config` as tables below it. The table `measured` beside
them records how the entry was measured; `same_as` takes over the settings of another algorithm's
entry, of which its own keys then change some. `recipes/` has whole config files for special tasks,
which `--config zoo:NAME` reads.

Reading is cheap: nothing but a small file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from briskrl.core.errors import ConfigError, nearest

FOLDER = Path(__file__).parent
RECIPES = FOLDER / "recipes"
PREFIX = "zoo:"
"""Begins the name of a recipe where a config file is expected."""
_NOT_SETTINGS = ("same_as", "measured")


@dataclass(frozen=True, slots=True)
class ZooEntry:
    """Tuned settings of one environment and algorithm."""

    env: str
    algo: str
    run: dict[str, Any] = field(default_factory=dict)
    """Settings of the run, such as steps and num_envs."""
    env_config: dict[str, Any] = field(default_factory=dict)
    algo_config: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    """How it was measured: score, bar, steps, cpu_s, seeds, games; empty if it was not."""

    @property
    def name(self) -> str:
        """The name in listings, for example cartpole/pqn."""
        return f"{file_name(self.env)}/{self.algo}"

    @property
    def command(self) -> str:
        """The command that trains it."""
        return f"brisk train {self.env} --algo {self.algo}"

    def describe(self) -> str:
        """The settings in one line."""
        everything = {**self.run, **self.env_config, **self.algo_config}
        return ", ".join(f"{key} {_show(value)}" for key, value in everything.items())


def file_name(env: str) -> str:
    """The name of an environment's file: gym:ALE/Pong-v5 is in ale_pong-v5.toml."""
    return env.removeprefix("gym:").replace("/", "_").replace(":", "_").lower()


def zoo_entry(env: str, algo: str) -> ZooEntry | None:
    """The tuned settings of an environment and an algorithm; None if the zoo has none."""
    table = _tables(file_name(env))
    if table is None or table.get("env") != env or not isinstance(table.get(algo), Mapping):
        return None
    own = dict(table[algo])
    base = dict(table[own["same_as"]]) if "same_as" in own else {}
    merged: dict[str, Any] = {}
    for source in (base, own):
        for key, value in source.items():
            if key in _NOT_SETTINGS:
                continue
            both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
            merged[key] = {**merged[key], **value} if both else value
    return ZooEntry(
        env=env,
        algo=algo,
        env_config=merged.pop("env_config", {}),
        algo_config=merged.pop("algo_config", {}),
        run=merged,
        measured=own.get("measured", {}),
    )


def zoo_entries() -> Iterator[ZooEntry]:
    """All entries, by environment."""
    for path in sorted(FOLDER.glob("*.toml")):
        table = _tables(path.stem) or {}
        for algo, value in table.items():
            if isinstance(value, Mapping):
                found = zoo_entry(table["env"], algo)
                assert found is not None
                yield found


def find_entry(name: str) -> ZooEntry:
    """The entry of a name such as cartpole/pqn.

    Raises:
        ConfigError: There is none.
    """
    found = {entry.name: entry for entry in zoo_entries()}
    if name not in found:
        raise ConfigError(f"The zoo has no entry {name!r}. {nearest(name, found)}")
    return found[name]


def recipe_path(path: str) -> str:
    """The path of a config file; `zoo:NAME` is a recipe of the package.

    Raises:
        ConfigError: There is no such recipe.
    """
    if not path.startswith(PREFIX):
        return path
    recipes = {file.stem: file for file in sorted(RECIPES.iterdir())}
    name = path.removeprefix(PREFIX)
    if name not in recipes:
        raise ConfigError(f"The zoo has no recipe {name!r}. {nearest(name, recipes)}")
    return str(recipes[name])


@cache
def _tables(name: str) -> dict[str, Any] | None:
    """The content of one file; None if there is none."""
    path = _files().get(name)
    return None if path is None else tomllib.loads(path.read_text(encoding="utf-8"))


@cache
def _files() -> dict[str, Path]:
    """The files by name. Names from users are looked up here and never become paths."""
    return {path.stem: path for path in FOLDER.glob("*.toml")}


def _show(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
