"""Command-line flags generated from config classes; the docstring of a field is its help.

Flags only convert text to values. `briskrl.core.config` checks the values after all sources are
merged, with the same messages for flags and files.
"""

from __future__ import annotations

import argparse
import textwrap
import types
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NoReturn, get_args, get_origin

from briskrl.core.aliases import field_aliases, names_without_equivalent
from briskrl.core.config import Setting, field_defaults, field_docs, field_hints, limits
from briskrl.core.config_file import Layer
from briskrl.core.errors import BriskError, nearest
from briskrl.core.text_values import Assignments, kinds_of, parse_value, show

SKIPPED = ("env_config", "algo_config", "curriculum", "searcher", "stop")
"""Fields without a flag: tables, whose own fields have flags, or which only a file can hold."""

BEST = "the policy with the best evaluation during training instead of the newest"
"""Help of the flag --best."""

TRUST = "import the Python modules that settings of other users name; this runs their code"
"""Help of the flag --trust."""


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `BriskError` and suggests the nearest known flag."""

    def __init__(self, prog: str, description: str, examples: str = "") -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=examples,
            formatter_class=_Formatter,
            allow_abbrev=False,
        )

    def parse(self, argv: list[str]) -> argparse.Namespace:
        """Parse the arguments.

        Raises:
            BriskError: An argument is unknown or invalid.
        """
        args, unknown = self.parse_known_args(argv)
        flags = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        if flags:
            problems = " ".join(f"Unknown flag {flag}. {self._nearest(flag)}" for flag in flags)
            raise BriskError(f"{problems} `{self.prog} --help` lists all flags.")
        if unknown:
            self.error(f"unexpected argument {unknown[0]!r}")
        return args

    def error(self, message: str) -> NoReturn:
        """Raise the message that argparse would print before exiting."""
        sentence = message[:1].upper() + message[1:]
        raise BriskError(f"{sentence}. `{self.prog} --help` explains the options.")

    def _nearest(self, flag: str) -> str:
        clause = nearest(
            flag, [known for known in self._option_string_actions if known[:2] == "--"]
        )
        return clause if clause.startswith("Did") else ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)

    def _split_lines(self, text: str, width: int) -> list[str]:
        # Unlike argparse itself, never break a flag at its hyphens.
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


def flag_name(field: str) -> str:
    """The flag of a field: `--num-envs` for `num_envs`."""
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
    """Add one flag per field and per alias; flags that are not given leave no attribute.

    Args:
        parser: A parser or one of its groups.
        cls: The config class.
        section: Name of the table the fields belong to, empty for the run itself.
        preset: Values that replace the defaults of the class.
        preset_name: Name of the preset in the help.
        hidden: Accept the flags without listing them in the help.
        taken: Flags to leave out because the parser has them already.
    """
    defaults, docs, hints = field_defaults(cls), field_docs(cls), field_hints(cls)
    aliases = field_aliases(cls)
    for name, hint in hints.items():
        if name in SKIPPED or flag_name(name) in taken:
            continue
        changed = preset is not None and name in preset
        default = preset[name] if preset is not None and changed else defaults.get(name)
        origin = f" with {preset_name}" if changed else ""
        also = [flag_name(alias) for alias, field in aliases.items() if field == name]
        text = _help(docs.get(name, ""), hint, default, origin, also)
        _add_flag(parser, name, hint, section, argparse.SUPPRESS if hidden else text)
    for alias, field in aliases.items():
        if flag_name(alias) not in taken:
            _add_flag(parser, alias, hints[field], section, argparse.SUPPRESS)
    for name in names_without_equivalent(cls):
        if flag_name(name) not in taken:
            # Accepted here, so that the merge can say what to use instead.
            dest = f"{section}:{name}"
            options: dict[str, Any] = {"dest": dest, "default": argparse.SUPPRESS, "nargs": "?"}
            parser.add_argument(flag_name(name), help=argparse.SUPPRESS, const="", **options)


def _add_flag(
    parser: argparse._ActionsContainer, name: str, hint: Any, section: str, text: str
) -> None:
    options: dict[str, Any] = {"dest": f"{section}:{name}", "default": argparse.SUPPRESS}
    if hint is bool:
        options["action"] = argparse.BooleanOptionalAction
    else:
        options |= {"metavar": _metavar(hint)} | _repeats(hint)
    parser.add_argument(flag_name(name), help=text, **options)


def flag_layer(args: argparse.Namespace, classes: Mapping[str, type]) -> Layer:
    """The flags that were given, as settings of the sections they belong to.

    Args:
        args: The result of `Parser.parse`.
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
            hint = field_hints(cls).get(field_aliases(cls).get(name, name), str)
            setting = Setting(_flag_value(raw, hint, flag), flag)
        target = layer.tables.setdefault(section, {}) if section else layer.values
        target[name] = setting
    for section, values in layer.tables.items():
        resolve_flags = getattr(classes.get(section), "resolve_flags", None)
        if resolve_flags is not None:
            layer.tables[section] = resolve_flags(values)
    return layer


def _flag_value(raw: str | list[str], hint: Any, flag: str) -> Any:
    if hint == Assignments:
        return _assignments(raw, flag)
    return parse_value(",".join(raw) if isinstance(raw, list) else raw, hint)


def _assignments(words: Iterable[str], flag: str) -> dict[str, str]:
    """The keys and values of `--flag key=value`, which may be repeated with other keys.

    Raises:
        BriskError: A key is missing or repeated.
    """
    table: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        # Keys may be written like flags.
        key = key.strip().removeprefix("--").replace("-", "_")
        if not equals or not key:
            raise BriskError(f"{flag} {word!r} must have the form KEY=VALUES.")
        if key in table:
            raise BriskError(f"{flag} names {key!r} twice. Give all of its values at once.")
        table[key] = value.strip()
    return table


def clashes(classes: Iterable[type], reserved: Iterable[str] = ()) -> list[str]:
    """Flags that more than one class (or the command itself) would define."""
    seen = set(reserved)
    twice = []
    for cls in classes:
        hints, aliases = field_hints(cls), field_aliases(cls)
        named = {name: hint for name, hint in hints.items() if name not in SKIPPED}
        named |= {alias: hints[field] for alias, field in aliases.items()}
        named |= dict.fromkeys(names_without_equivalent(cls), str)
        for name, hint in named.items():
            flags = {flag_name(name)}
            if hint is bool:
                flags.add("--no-" + flag_name(name)[2:])
            twice += sorted(flags & seen)
            seen |= flags
    return twice


def _repeats(hint: Any) -> dict[str, Any]:
    """Lists of names and tables may be given in several flags; of other flags the last counts."""
    names = (tuple[str, ...], dict[str, Any], Assignments)
    return {"action": "append"} if any(kind in names for kind in kinds_of(hint)) else {}


def _metavar(hint: Any) -> str:
    names = []
    for kind in kinds_of(hint):
        if get_origin(kind) is Literal:
            names += [str(choice) for choice in get_args(kind)]
        elif get_origin(kind) is dict:
            names.append("KEY=VALUES" if kind == Assignments else "KEY=VALUE,...")
        elif get_origin(kind) is tuple:
            names.append(_metavar(get_args(kind)[0]) + ",...")
        elif kind is not types.NoneType:
            names.append(kind.__name__.upper())
    return "|".join(names)


def _help(doc: str, hint: Any, default: object, origin: str, also: list[str]) -> str:
    notes = [limits(hint).replace("of at", "at")]
    if default is not None:
        notes.append(f"default: {show(default)}{origin}")
    if also:
        notes.append(f"also {', '.join(also)}")
    details = "; ".join(filter(None, notes))
    return (f"{doc} [{details}]" if details else doc).replace("%", "%%")
