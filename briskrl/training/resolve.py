"""Merge settings from files, flags and code into one complete, checked TrainConfig.

Merge order: the defaults of the classes, the algorithm's preset, then the layers in the given order
(files first, flags last). All settings are checked after the merge, whatever their source. Imports
neither torch nor numba nor gymnasium.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from briskrl.algos.registry import ALGOS
from briskrl.core.aliases import field_aliases, resolve_aliases
from briskrl.core.config import (
    Setting,
    Settings,
    build,
    completed_record,
    config_error,
    field_defaults,
    field_hints,
    merge,
    settings,
    try_build,
)
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import ConfigError, nearest
from briskrl.core.registry import Registry, load_object
from briskrl.envs.registry import ENVS
from briskrl.training.config import DEFAULT_STEPS, Stage, TrainConfig
from briskrl.zoo import ZooEntry, zoo_entry

TABLES = ("env_config", "algo_config")
"""Fields of TrainConfig that are tables in a file and config objects in a resolved config."""


DEFAULT_NUM_ENVS = 256
"""Of algorithms whose preset names no number."""

FEWEST_ROUNDS = 64
"""Rounds of updates that a run should have: with fewer, it gets fewer environments."""

SHORTEST_ROLLOUT = 32
"""Rollouts of environments stepped in Python get no shorter than this by themselves."""


def resolve(layers: Sequence[Layer], *, zoo: bool = True) -> TrainConfig:
    """The complete config of the layers, with nested config objects; later layers win.

    Args:
        layers: Settings by source.
        zoo: Whether the tuned settings of the zoo may go before them, if the layers agree.

    Raises:
        ConfigError: Unknown names or keys, wrong types or ranges, impossible combinations. The
            message lists all of them, each with its file and line or its flag if known.
    """
    problems: list[str] = []
    if zoo:
        layers = [*_zoo_layers(layers), *layers]
    top = merge(layer.values for layer in layers)
    env_class = _lookup("env", top, problems, env_config_class)
    algo_class = _lookup("algo", top, problems, algo_config_class)
    sections = {"": TrainConfig, "env_config": env_class, "algo_config": algo_class}
    layers = [_plain_names(layer, sections, problems) for layer in layers]
    top = _run_values(layers)
    values = {
        "env_config": merge(layer.table("env_config") for layer in layers),
        "algo_config": _algo_values(layers, in_python=_in_python(top)),
    }
    problems += _misplaced(layers, sections)
    built: dict[str, Any] = {}
    for name in TABLES:
        cls = sections[name]
        if cls is not None:
            built[name], wrong = try_build(cls, _known(cls, values[name]))
            problems += wrong
    run, wrong = try_build(TrainConfig, _known(TrainConfig, top))
    problems += wrong
    if run is not None:
        run, wrong = _with_num_envs(run, built.get("algo_config"))
        problems += wrong
    if run is not None and built.get("algo_config") is not None and not _gives_rollout(run, layers):
        built["algo_config"] = _with_rollout(run, built["algo_config"])
    if run is not None and built.get("env_config") is not None:
        problems += _wrong_stages(run, built["env_config"])
    if run is None or problems:
        raise config_error(problems)
    return dataclasses.replace(run, zoo=False, **built)


def load_config(path: str | Path, *, zoo: bool = True) -> TrainConfig:
    """The complete config of one file."""
    return resolve([read_file(path)], zoo=zoo)


def load_run_config(path: str | Path) -> TrainConfig:
    """The complete config of a run folder, also of one that an earlier version has written."""
    layer = read_file(path)
    algo = layer.values.get("algo")
    if algo is not None and isinstance(algo.value, str) and algo.value in ALGOS:
        absent = settings(completed_record(algo_config_class(algo.value), {}), str(path))
        layer.tables["algo_config"] = absent | layer.table("algo_config")
    return resolve([layer], zoo=False)


def complete(config: TrainConfig) -> TrainConfig:
    """Check a config made in code and fill in the defaults of absent nested configs.

    Nested configs may be config objects of the right class, mappings of settings, or None.

    Raises:
        ConfigError: A setting cannot be used.
    """
    values = _values(config)
    layer = Layer()
    for table in TABLES:
        nested = values.pop(table)
        if dataclasses.is_dataclass(nested):
            _check_class(table, nested, config)
            nested = _values(nested)
        if not isinstance(nested, Mapping | None):
            raise ConfigError(f"{table} must be a config object or a mapping, not {nested!r}.")
        layer.tables[table] = settings(nested or {})
    # What equals the defaults of the class is unset, so that presets apply as on the command line.
    unset = field_defaults(TrainConfig)
    layer.values = settings({name: v for name, v in values.items() if v != unset[name]})
    return resolve([layer])


def env_config(name: str, **values: Any) -> Any:
    """A checked config object of a registered environment."""
    return build(env_config_class(name), settings(values))


def env_config_class(name: str) -> type:
    """The config class of a registered environment."""
    return _load(ENVS, name)


def algo_config_class(name: str) -> type:
    """The config class of a registered algorithm preset."""
    return _load(ALGOS, name)


def stage_env_config(config: Any, stage: Stage | None) -> Any:
    """The environment's settings in a stage of the curriculum; `config` is that of the task."""
    if stage is None:
        return config
    changes, problems = resolve_aliases(type(config), settings(stage.env))
    if problems:
        raise config_error(problems)
    return build(type(config), settings(_values(config)) | changes)


def _wrong_stages(run: TrainConfig, config: Any) -> list[str]:
    problems = []
    for number, stage in enumerate(run.curriculum, 1):
        try:
            stage_env_config(config, stage)
        except ConfigError as error:
            problems.append(f"In stage {number} of the curriculum: {error}")
    return problems


def _values(config: Any) -> dict[str, Any]:
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def _check_class(table: str, nested: Any, config: TrainConfig) -> None:
    find = env_config_class if table == "env_config" else algo_config_class
    wanted = find(config.env if table == "env_config" else config.algo)
    if not isinstance(nested, wanted):
        got = type(nested).__name__
        raise ConfigError(f"{table} must be a {wanted.__name__}, not a {got}.")


def _load(registry: Registry[Any], name: str) -> type:
    found: type = load_object(registry.get(name).config)
    return found


def _lookup(field: str, top: Settings, problems: list[str], find: Any) -> type | None:
    """The config class that the setting `field` names; None, with a problem added, if unknown."""
    setting = top.get(field, Setting(getattr(TrainConfig(), field)))
    if not isinstance(setting.value, str):
        return None
    try:
        found: type = find(setting.value)
        return found
    except ConfigError as error:
        problems.append(f"{str(error).replace('. ', setting.where() + '. ', 1)}")
        return None


def _in_python(top: Settings) -> bool:
    """Whether the environment of these settings is one that is stepped in Python."""
    env = top.get("env", Setting(TrainConfig().env)).value
    return isinstance(env, str) and steps_in_python(env)


def steps_in_python(env: str) -> bool:
    """Whether the defaults for environments stepped in Python apply to an environment."""
    return env in ENVS and ENVS.get(env).steps_in_python


def _algo_values(layers: Sequence[Layer], *, in_python: bool) -> Settings:
    """The algorithm's settings; a preset belongs to the layer that names it.

    So a flag `--algo dqn` over the file of a rainbow run resets the settings that the rainbow
    preset had changed, while the file's other settings stay.
    """
    algo = TrainConfig().algo
    values = _preset(algo, in_python=in_python)
    for layer in layers:
        named = layer.values.get("algo", Setting(algo)).value
        if named != algo and isinstance(named, str):
            switched = _preset_keys(algo)
            kept = {key: value for key, value in values.items() if key not in switched}
            algo, values = named, kept | _preset(named, in_python=in_python)
        values = values | layer.table("algo_config")
    return values


def _run_values(layers: Sequence[Layer]) -> Settings:
    """The run's settings, with the algorithm's preset for those that no layer sets."""
    top = merge(layer.values for layer in layers)
    algo = top.get("algo", Setting(TrainConfig().algo)).value
    known = isinstance(algo, str) and algo in ALGOS
    suits = ALGOS.get(algo).run_defaults(in_python=_in_python(top)) if known else {}
    # The number of environments depends on the budget, too.
    others = {name: value for name, value in suits.items() if name != "num_envs"}
    return settings(others, f"preset {algo}") | top


def _plain_names(layer: Layer, sections: dict[str, type | None], problems: list[str]) -> Layer:
    """The layer with every alias replaced by the field it stands for."""

    def renamed(cls: type | None, values: Settings) -> Settings:
        named, wrong = (values, []) if cls is None else resolve_aliases(cls, values)
        problems.extend(wrong)
        return named

    # A file may have tables of any name, also of the empty one; `_misplaced` reports them.
    return Layer(
        values=renamed(sections[""], layer.values),
        tables={
            name: renamed(sections.get(name) if name else None, values)
            for name, values in layer.tables.items()
        },
    )


def _with_num_envs(run: TrainConfig, algo_config: Any) -> tuple[TrainConfig, list[str]]:
    """The run with a number of environments, and problems of their combination."""
    if run.num_envs is not None or run.algo not in ALGOS:
        return run, []
    entry = ALGOS.get(run.algo)
    defaults = entry.run_defaults(in_python=steps_in_python(run.env))
    count = int(str(defaults.get("num_envs", DEFAULT_NUM_ENVS)))
    round_steps = 1
    if entry.round_steps is not None and algo_config is not None:
        round_steps = int(getattr(algo_config, entry.round_steps))
    while (
        count > 1
        and (run.replicas == 1 or count % (2 * run.replicas) == 0)
        and _is_short(run, FEWEST_ROUNDS * round_steps * count)
    ):
        count //= 2
    filled = dataclasses.replace(run, num_envs=count)
    return filled, filled.check()


def _gives_rollout(run: TrainConfig, layers: Sequence[Layer]) -> bool:
    """Whether a layer sets the rollout length, or nothing but the class does."""
    if run.algo not in ALGOS or not steps_in_python(run.env):
        return True
    entry = ALGOS.get(run.algo)
    name = entry.round_steps
    return name not in entry.python_preset or any(
        name in layer.table("algo_config") for layer in layers
    )


def _with_rollout(run: TrainConfig, algo_config: Any) -> Any:
    """The algorithm's settings with shorter rollouts for many environments and for short runs."""
    entry = ALGOS.get(run.algo)
    name = str(entry.round_steps)
    length = int(getattr(algo_config, name))
    most = length * int(str(entry.python_run_preset["num_envs"]))
    while length > SHORTEST_ROLLOUT and (
        length * run.num_envs > most or _is_short(run, FEWEST_ROUNDS * length * run.num_envs)
    ):
        length //= 2
    return dataclasses.replace(algo_config, **{name: length})


def _is_short(run: TrainConfig, steps: int) -> bool:
    """Whether the run has fewer steps than these; a budget of episodes is not known in steps."""
    own = DEFAULT_STEPS if run.steps is None and run.budget_is_steps else run.steps
    return own is not None and own < steps


def _zoo_layers(layers: Sequence[Layer]) -> list[Layer]:
    """The zoo's settings for the environment and the algorithm, unless the layers refuse them."""
    entry = zoo_entry_of(layers)
    if entry is None:
        return []
    source = f"zoo {entry.name}"
    values = {"algo": entry.algo, **entry.run}
    tables = {"env_config": entry.env_config, "algo_config": entry.algo_config}
    return [
        Layer(
            values=settings(values, source),
            tables={name: settings(table, source) for name, table in tables.items()},
        )
    ]


def zoo_entry_of(layers: Sequence[Layer]) -> ZooEntry | None:
    """The zoo's entry that `resolve` applies to these layers; None if there is none."""
    top, defaults = merge(layer.values for layer in layers), TrainConfig()
    found = [
        top.get(name, Setting(getattr(defaults, name))).value for name in ("env", "algo", "zoo")
    ]
    env, algo, wanted = found
    if wanted is not True or not isinstance(env, str) or not isinstance(algo, str):
        return None
    return zoo_entry(env, algo)


def _preset_keys(algo: str) -> set[str]:
    """The settings that any preset of the algorithm's family changes."""
    if algo not in ALGOS:
        return set()
    family = ALGOS.get(algo).config
    entries = [ALGOS.get(name) for name in ALGOS]
    return {
        key
        for entry in entries
        if entry.config == family
        for key in entry.algo_defaults(in_python=True)
    }


def _preset(name: str, *, in_python: bool) -> Settings:
    if name not in ALGOS:
        return {}
    return settings(ALGOS.get(name).algo_defaults(in_python=in_python), f"preset {name}")


def _known(cls: type, values: Settings) -> Settings:
    """The settings that belong to the class; `_misplaced` reports the others."""
    return {name: setting for name, setting in values.items() if name in _keys(cls)}


def _keys(cls: type) -> list[str]:
    return [name for name in field_hints(cls) if name not in TABLES or cls is not TrainConfig]


def _misplaced(layers: Sequence[Layer], sections: dict[str, type | None]) -> list[str]:
    """One sentence for every key that is unknown in its section."""
    problems = []
    for layer in layers:
        problems += _unknown_keys("", layer.values, sections)
        for name, values in layer.tables.items():
            if name in TABLES:
                problems += _unknown_keys(name, values, sections)
            else:
                problems.append(_unknown_table(name, values))
    return problems


def _unknown_keys(section: str, values: Settings, sections: dict[str, type | None]) -> list[str]:
    cls = sections[section]
    if cls is None:
        return []
    return [
        _unknown_key(key, setting, section, sections)
        for key, setting in values.items()
        if key not in _keys(cls)
    ]


def _unknown_table(section: str, values: Settings) -> str:
    where = next(iter(values.values())).where() if values else ""
    known = " and ".join(f"[{name}]" for name in TABLES)
    return f"Unknown table [{section}]{where}. The tables are {known}."


def _unknown_key(key: str, setting: Setting, section: str, sections: dict[str, type | None]) -> str:
    place = f" in [{section}]" if section else ""
    problem = f"Unknown key {key!r}{place}{setting.where()}."
    for other, cls in sections.items():
        if other != section and cls is not None and key in [*_keys(cls), *field_aliases(cls)]:
            home = f"the table [{other}]" if other else "the top level, above the tables"
            return f"{problem} It belongs to {home}; move it there."
    if key in TABLES:
        return f"{problem} It must be a table of settings."
    known = sections[section]
    assert known is not None
    return f"{problem} {nearest(key, _keys(known))}"
