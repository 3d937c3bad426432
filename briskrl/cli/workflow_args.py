"""Arguments of `brisk workflow`: settings from presets, files and flags."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from briskrl.algos.ppo.config import PPOConfig
from briskrl.cli.flags import TRUST, Parser, add_flags, flag_layer, flag_name
from briskrl.core.config import Setting, Settings, field_hints, settings
from briskrl.core.config_file import Layer, read_file
from briskrl.core.errors import ConfigError
from briskrl.envs.registry import ENVS
from briskrl.envs.workflow.config import WorkflowEnvConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.config import PPO_DEFAULTS, WorkflowConfig
from briskrl.workflows.run.presets import PRESETS, find_preset
from briskrl.workflows.run.stop_config import StopConfig

OWN = "own"
"""Section of the command's own flags."""
TASK = "task_config"
"""Section of the flags of the environment itself."""
HIDDEN = {
    "env_config": ("workflow", "task", "task_config", "adapt_steps"),
    "searcher": ("compliance_threshold",),
}
"""Fields without a flag: the run sets them, or another flag does."""
RED_AGENT = "red"
"""Field of an environment that is also called --red-agent."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """The settings of a run, and the command's own arguments."""

    layers: list[Layer]
    args: argparse.Namespace
    task: str
    own: Settings
    """Settings of the command's own config class."""


def parse_run(
    parser: Parser,
    argv: Sequence[str],
    *,
    own: type | None = None,
    skip: Sequence[str] = (),
) -> Parsed:
    """Parse the settings of a run.

    Args:
        parser: A parser that has the command's own flags already.
        argv: The arguments after the command's name.
        own: Config class of the command's own flags.
        skip: Fields of WorkflowConfig without a flag.

    Raises:
        BriskError: A flag, key, name or value is invalid.
    """
    if own is not None:
        add_flags(parser, own, section=OWN)
    _add_common(parser)
    words = [word for word in argv if word not in ("-h", "--help")]
    early, _ = parser.parse_known_args(words)
    files = [_lifted(read_file(path)) for path in early.config]
    presets = [_layer_of(find_preset(early.preset))] if early.preset else []
    task = early.task or _last([*presets, *files], "task") or WorkflowConfig().task
    classes = _add_run_flags(parser, task, skip)
    if own is not None:
        classes[OWN] = own
    args = parser.parse(list(argv))
    flags = flag_layer(args, classes)
    _move_task_settings(flags)
    for name in ("task", "device"):
        value = "cpu" if name == "device" and args.no_gpu else getattr(args, name, None)
        if value is not None:
            flags.values[name] = Setting(value, f"--{name}")
    if args.task_module is not None:
        table = flags.tables.setdefault("env_config", {})
        table["task"] = Setting(args.task_module, "--task-module")
    given = flags.tables.pop(OWN, {})
    return Parsed([*presets, *files, flags], args, task, given)


def _add_common(parser: Parser) -> None:
    group = parser.add_argument_group("settings")
    group.add_argument(
        "--task",
        metavar="NAME",
        help="environment with kinds of incident: cage2, ordered-visit, or gym:ID with "
        "--task-module [default: cage2]",
    )
    group.add_argument(
        "--task-module",
        metavar="MODULE:NAME",
        help="a WorkflowTask of yours, for environments without a built-in one",
    )
    group.add_argument(
        "--preset", metavar="NAME", help=f"well-known settings: {', '.join(PRESETS)}"
    )
    group.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="FILE",
        help="read settings from a .toml, .json or .yaml file; may be repeated",
    )
    group.add_argument("--no-gpu", action="store_true", help="the same as --device cpu")
    group.add_argument("--trust", action="store_true", help=TRUST)
    group.add_argument(
        "--dry-run", action="store_true", help="print what the episodes suffice for, and exit"
    )
    group.add_argument(
        "--print-config", action="store_true", help="print the merged settings as TOML and exit"
    )
    group.add_argument("--json", action="store_true", help="print one JSON object at the end")


def _add_run_flags(parser: Parser, task: str, skip: Sequence[str]) -> dict[str, type]:
    """Flags of everything that can be set; returns the classes by section."""
    inner: Any = ENVS.get(task).load_config()
    taken = set(parser._option_string_actions) | {flag_name(name) for name in skip}
    classes: dict[str, type] = {}
    sections: tuple[tuple[str, str, type, Mapping[str, Any] | None], ...] = (
        ("", "run", WorkflowConfig, None),
        ("searcher", "search", SearcherConfig, None),
        ("stop", "end of training", StopConfig, None),
        ("env_config", "workflows", WorkflowEnvConfig, None),
        (TASK, f"environment {task}", inner, None),
        ("algo_config", "PPO", PPOConfig, PPO_DEFAULTS),
    )
    for section, title, cls, preset in sections:
        hidden = {flag_name(name) for name in HIDDEN.get(section, ())}
        group = parser.add_argument_group(title)
        add_flags(
            group,
            cls,
            section=section,
            preset=preset,
            preset_name="brisk workflow",
            taken=taken | hidden,
        )
        taken |= set(parser._option_string_actions)
        classes[section] = cls
    if RED_AGENT in field_hints(inner):
        parser.add_argument(
            "--red-agent",
            dest=f"{TASK}:{RED_AGENT}",
            default=argparse.SUPPRESS,
            help=argparse.SUPPRESS,
        )
    return classes


def _move_task_settings(layer: Layer) -> None:
    """Make the settings of the environment itself a table of env_config."""
    own = layer.tables.pop(TASK, {})
    if own:
        values = {name: setting.value for name, setting in own.items()}
        flags = ", ".join(setting.source for setting in own.values())
        layer.tables.setdefault("env_config", {})[TASK] = Setting(values, flags)


def _lifted(layer: Layer) -> Layer:
    """A file whose table [task_config] holds the settings of the environment itself."""
    own = layer.tables.pop(TASK, {})
    layer.values.pop("mode", None)
    if own:
        table = layer.tables.setdefault("env_config", {})
        if TASK in table:
            raise ConfigError("A file has task_config twice: as a table, and in env_config.")
        values = {name: setting.value for name, setting in own.items()}
        table[TASK] = Setting(values, next(iter(own.values())).source)
    return layer


def _layer_of(values: Mapping[str, Any]) -> Layer:
    """Settings of a preset as a layer."""
    layer = Layer()
    for name, value in values.items():
        if isinstance(value, Mapping):
            layer.tables[name] = settings(value, "preset")
        else:
            layer.values[name] = Setting(value, "preset")
    return layer


def _last(layers: Sequence[Layer], name: str) -> str | None:
    found = [layer.values[name].value for layer in layers if name in layer.values]
    return found[-1] if found and isinstance(found[-1], str) else None
