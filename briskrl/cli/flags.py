"""Command-line flags made from config classes; the field's docstring is the help.

Flags only split words into values. Whether a value is right is decided after the merge by
`briskrl.core.config`, in the same words for flags and files.
"""

from __future__ import annotations

import argparse
import json
import types
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin

from briskrl.core.config import (
    Setting,
    field_aliases,
    field_defaults,
    field_docs,
    field_hints,
    limits,
)
from briskrl.core.config_file import Layer
from briskrl.core.errors import BriskError, nearest

SKIPPED = ("env_config", "algo_config", "curriculum")
"""Fields without a flag: tables, whose own fields have one each, or which only a file can hold."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `BriskError` and knows the nearest right flag."""

    def __init__(self, prog: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=examples,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """The parsed words; anything unknown is refused."""
        args, unknown = self.parse_known_args(argv)
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if flags:
            told = " ".join(f"Unknown flag {flag}. {self._nearest(flag)}" for flag in flags)
            raise BriskError(f"{told} `{self.prog} --help` lists all.")
        if unknown:
            self.error(f"one word too many: {unknown[0]!r}")
        return args

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print and exit with."""
        told = message[:1].upper() + message[1:]
        raise BriskError(f"{told}. `{self.prog} --help` explains the options.")

    def _nearest(self, flag: str) -> str:
        clause = nearest(
            flag, [known for known in self._option_string_actions if known[:2] == "--"]
        )
        return clause if clause.startswith("Did") else ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)


def flag_name(field: str) -> str:
    """`num_envs` as `--num-envs`."""
    return "--" + field.replace("_", "-")


def add_flags(
    parser: argparse._ActionsContainer,
    cls: type,
    *,
    section: str = "",
    preset: Mapping[str, object] | None = None,
    preset_name: str = "",
    hidden: bool = False,
    taken: Collection[str] = (),
) -> None:
    """Add one flag per field; absent flags leave no trace in the parsed words.

    Args:
        parser: A parser or one of its groups.
        cls: The config class.
        section: Name of the table the fields belong to, empty for the run itself.
        preset: Values that replace the class's defaults.
        preset_name: What the help calls them.
        hidden: Accept the flags without listing them in the help.
        taken: Flags to leave out because they are there already.
    """
    defaults, docs = field_defaults(cls), field_docs(cls)
    for name, hint in field_hints(cls).items():
        if name in SKIPPED or flag_name(name) in taken:
            continue
        changed = preset is not None and name in preset
        default = preset[name] if preset is not None and changed else defaults.get(name)
        origin = f" with {preset_name}" if changed else ""
        told = _help(docs.get(name, ""), hint, default, origin)
        told = argparse.SUPPRESS if hidden else told
        options: dict[str, Any] = {"dest": f"{section}:{name}", "default": argparse.SUPPRESS}
        if hint is bool:
            action = argparse.BooleanOptionalAction
            parser.add_argument(flag_name(name), action=action, help=told, **options)
        else:
            options |= _repeats(hint)
            parser.add_argument(flag_name(name), metavar=_metavar(hint), help=told, **options)
    for alias, name in field_aliases(cls).items():
        if flag_name(alias) in taken:
            continue
        told = argparse.SUPPRESS if hidden else f"Another name for {flag_name(name)}."
        options = {"dest": f"{section}:{alias}", "default": argparse.SUPPRESS}
        options |= _repeats(field_hints(cls)[name])
        metavar = _metavar(field_hints(cls)[name])
        parser.add_argument(flag_name(alias), metavar=metavar, help=told, **options)


def flag_layer(args: argparse.Namespace, classes: Mapping[str, type]) -> Layer:
    """The flags that were given, as settings of the sections they belong to.

    Args:
        args: What `Parser.parse` returned.
        classes: Config class of each section that flags were added for.
    """
    layer = Layer()
    for dest, raw in vars(args).items():
        section, colon, name = dest.partition(":")
        if not colon:
            continue
        flag = flag_name(name)
        if isinstance(raw, bool):
            setting = Setting(raw, flag if raw else "--no-" + flag[2:])
        else:
            cls = classes[section]
            hint = field_hints(cls)[field_aliases(cls).get(name, name)]
            word = ",".join(raw) if isinstance(raw, list) else raw
            setting = Setting(parse_value(word, hint), flag)
        target = layer.tables.setdefault(section, {}) if section else layer.values
        target[name] = setting
    return layer


def parse_value(word: str, hint: Any) -> Any:
    """The value a word stands for under a type; the word itself if it stands for none."""
    for kind in _kinds(hint):
        if get_origin(kind) is dict:
            return _table(word)
        if get_origin(kind) is tuple:
            inner = get_args(kind)[0]
            return [parse_value(part.strip(), inner) for part in word.split(",") if part.strip()]
        if get_origin(kind) is Literal:
            # Choices may be numbers.
            named = {str(choice): choice for choice in get_args(kind)}
            if word in named:
                return named[word]
        if kind is types.NoneType and word.lower() == "none":
            return None
        if kind in (int, float):
            number = _number(word, kind)
            if number is not None:
                return number
    return word


def show(value: object) -> str:
    """A value as it would be typed after its flag; on or off for switches, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple | list):
        return ",".join(map(show, value)) or "-"
    if isinstance(value, dict):
        return ",".join(f"{key}={json.dumps(part)}" for key, part in value.items()) or "-"
    return str(value)


def clashes(classes: Iterable[type], reserved: Iterable[str] = ()) -> list[str]:
    """Flags that more than one class (or the command itself) would define."""
    seen = set(reserved)
    twice = []
    for cls in classes:
        for name, hint in field_hints(cls).items():
            flags = {flag_name(name)} if name not in SKIPPED else set()
            if hint is bool:
                flags.add("--no-" + flag_name(name)[2:])
            twice += sorted(flags & seen)
            seen |= flags
        aliases = {flag_name(alias) for alias in field_aliases(cls)}
        twice += sorted(aliases & seen)
        seen |= aliases
    return twice


def _repeats(hint: Any) -> dict[str, Any]:
    """Lists of names and tables may be given bit by bit; other flags keep the last word."""
    names = (tuple[str, ...], dict[str, Any])
    return {"action": "append"} if any(kind in names for kind in _kinds(hint)) else {}


def _table(word: str) -> Any:
    """JSON, or key=value pairs whose values are JSON or text; the word itself if it is neither."""
    if word.lstrip().startswith("{"):
        with suppress(ValueError):
            return json.loads(word)
        return word
    table = {}
    for pair in filter(None, word.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            return word
        try:
            table[key.strip()] = json.loads(value)
        except ValueError:
            table[key.strip()] = value.strip()
    return table


def _number(word: str, kind: type) -> int | float | None:
    if kind is int:
        with suppress(ValueError):
            return int(word)
    try:
        value = float(word)
    except ValueError:
        return None
    # 1e6 is how people write a million steps.
    return int(value) if kind is int and value.is_integer() else value


def _kinds(hint: Any) -> list[Any]:
    """The plain types a hint allows, integers before numbers."""
    origin = get_origin(hint)
    if origin is Annotated:
        return _kinds(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return [kind for member in get_args(hint) for kind in _kinds(member)]
    return [hint]


def _metavar(hint: Any) -> str:
    words = []
    for kind in _kinds(hint):
        if get_origin(kind) is Literal:
            words += [str(choice) for choice in get_args(kind)]
        elif get_origin(kind) is dict:
            words.append("KEY=VALUE,...")
        elif get_origin(kind) is tuple:
            words.append(_metavar(get_args(kind)[0]) + ",...")
        elif kind is not types.NoneType:
            words.append(kind.__name__.upper())
    return "|".join(words)


def _help(doc: str, hint: Any, default: object, origin: str) -> str:
    notes = [limits(hint).replace("of at", "at")]
    if default is not None:
        notes.append(f"default: {show(default)}{origin}")
    told = "; ".join(filter(None, notes))
    return (f"{doc} [{told}]" if told else doc).replace("%", "%%")
