"""Build checked, frozen config dataclasses from settings of any source, and convert them back.

A config class is a frozen standard-library dataclass. Its ranges are annotations (`msgspec.Meta`),
the string under each field is its help, and an optional `check()` returns one sentence for every
combination that cannot work; `briskrl.core.aliases` describes other names of its fields. A value
carries its source, so that an error can name the file and line or the flag.
`briskrl.core.config_file` reads files; `briskrl.training.resolve` merges everything.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import math
import re
import reprlib
import textwrap
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from briskrl.core.aliases import resolve_aliases
from briskrl.core.errors import ConfigError, nearest

C = TypeVar("C")


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One value and its source."""

    value: Any
    source: str = ""
    """For example "zoo:x, line 3" or "--lr"; empty if set by code."""

    def where(self) -> str:
        """The source in parentheses, with a leading space; empty if there is none."""
        return f" ({self.source})" if self.source else ""


Settings = dict[str, Setting]
"""Values by field name; `merge` combines several, and later ones win."""


def settings(values: Mapping[str, Any], source: str = "") -> Settings:
    """Plain values as settings of one source."""
    return {name: Setting(value, source) for name, value in values.items()}


def merge(layers: Iterable[Settings]) -> Settings:
    """All settings of all layers; later layers win."""
    return {name: setting for layer in layers for name, setting in layer.items()}


def accepts_aliases(cls: type[C]) -> type[C]:
    """Make the constructor of a config class accept the aliases of its fields as keywords.

    Put it above `@dataclass`. Type checkers know only the fields. A name without an exact
    equivalent, or different values for one field under two names, raises a ConfigError. With
    `dataclasses.replace`, an alias replaces the value of its field.
    """
    init = vars(cls)["__init__"]
    kind: type = cls

    @functools.wraps(init)
    def init_with_aliases(self: C, *args: Any, **kwargs: Any) -> None:
        fields = field_hints(kind).keys()
        if not kwargs.keys() <= fields:
            given = {name: Setting(value, name) for name, value in kwargs.items()}
            if fields <= kwargs.keys():
                # Only `dataclasses.replace` passes every field, with the old values.
                given = _without_replaced(kind, given)
            plain, problems = resolve_aliases(cls, given)
            if problems:
                raise config_error(problems)
            kwargs = {name: setting.value for name, setting in plain.items()}
        init(self, *args, **kwargs)

    setattr(cls, "__init__", init_with_aliases)  # noqa: B010 - mypy rejects the assignment
    return cls


def _without_replaced(cls: type, given: Settings) -> Settings:
    """The settings without the fields that aliases among them stand for."""
    fields = field_hints(cls)
    aliases = {name: setting for name, setting in given.items() if name not in fields}
    replaced, _ = resolve_aliases(cls, aliases)
    return {name: setting for name, setting in given.items() if name not in replaced}


@functools.cache
def field_hints(cls: type) -> dict[str, Any]:
    """Field names of a config class with their annotated types, in order."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


@functools.cache
def field_docs(cls: type) -> dict[str, str]:
    """The string under each field of a config class; fields without one are left out."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= _class_docs(base)
    return docs


def field_defaults(cls: type) -> dict[str, Any]:
    """Default of every field that has one."""
    defaults = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = field.default_factory()
    return defaults


def completed_record(cls: type, recorded: Mapping[str, object]) -> dict[str, object]:
    """The settings that a run has recorded, and those that did not exist yet when it did.

    A class whose defaults are not what earlier versions did lists that in `WHEN_ABSENT`.
    """
    absent: Mapping[str, object] = getattr(cls, "WHEN_ABSENT", {})
    return {**absent, **recorded}


def changeable_fields(cls: type) -> frozenset[str]:
    """The fields of a config class that may change before a run is resumed."""
    fields: frozenset[str] = getattr(cls, "RESUME_MAY_CHANGE", frozenset())
    return fields


def build(cls: type[C], values: Settings) -> C:
    """A checked object of the config class; fields not among the values keep their defaults.

    Raises:
        ConfigError: A setting is unknown, has the wrong type, is out of range, or cannot be
            combined with others; the message lists every problem.
    """
    built, problems = try_build(cls, values)
    if built is None:
        raise config_error(problems)
    return built


def try_build(cls: type[C], values: Settings) -> tuple[C | None, list[str]]:
    """Like `build`, but returns the object or None, and one sentence per problem."""
    kind: type = cls
    hints = field_hints(kind)
    values, problems = resolve_aliases(kind, values)
    good = {}
    for name, setting in values.items():
        if name not in hints:
            problems.append(f"Unknown key {name!r}{setting.where()}. {nearest(name, hints)}")
            continue
        try:
            good[name] = convert(setting.value, hints[name])
        except ValueError as error:
            shown = reprlib.repr(setting.value)
            problems.append(f"{name} = {shown}{setting.where()} must be {error}")
    missing = set(hints) - set(field_defaults(kind)) - set(values)
    problems += [f"{name} is missing; it has no default." for name in sorted(missing)]
    if problems:
        return None, problems
    built = cls(**good)
    check = getattr(built, "check", None)
    problems = [_with_sources(sentence, values) for sentence in check()] if check else []
    return (None if problems else built), problems


def convert(value: Any, hint: Any) -> Any:
    """Convert a value to the annotated type; only ints to floats and lists to tuples.

    Raises:
        ValueError: It does not fit; the text describes what does, as in "a number above 0."
    """
    nested = _record_class(hint)
    if nested is not None:
        return _convert_records(value, nested)
    try:
        result = msgspec.convert(value, hint, strict=True)
    except (msgspec.ValidationError, OverflowError, RecursionError):
        raise ValueError(_wanted(value, hint)) from None
    if not _is_sound(result):
        raise ValueError(f"{describe(hint)}, without nan, infinity or control characters.")
    return result


def _record_class(hint: Any) -> type | None:
    """The config class of a field that holds a list of tables."""
    if get_origin(hint) is not tuple:
        return None
    member: type = get_args(hint)[0]
    return member if dataclasses.is_dataclass(member) else None


def _convert_records(value: Any, cls: type) -> tuple[Any, ...]:
    """Convert a list of tables, or of config objects, to config objects.

    Raises:
        ValueError: It is not such a list, or a table is invalid.
    """
    if not isinstance(value, list | tuple):
        raise ValueError("a list of tables.")
    records: list[Any] = []
    for number, item in enumerate(value, 1):
        if isinstance(item, cls):
            item = {field.name: getattr(item, field.name) for field in dataclasses.fields(cls)}
        if not isinstance(item, Mapping):
            raise ValueError(f"a list of tables; number {number} is not a table.")
        record, problems = try_build(cls, settings(item))
        if problems:
            raise ValueError(f"a list of valid tables. In number {number}: {' '.join(problems)}")
        records.append(record)
    return tuple(records)


def config_error(problems: list[str]) -> ConfigError:
    """One error that lists all problems in one paragraph."""
    if len(problems) == 1:
        return ConfigError(problems[0])
    listed = " ".join(f"({i}) {problem}" for i, problem in enumerate(problems, 1))
    return ConfigError(f"{len(problems)} settings cannot be used. {listed}")


def to_dict(config: Any) -> dict[str, Any]:
    """The config as plain data for JSON and TOML: without None, and with lists for tuples."""
    plain: dict[str, Any] = {}
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if value is not None:
            plain[field.name] = _plain(value)
    return plain


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return to_dict(value)
    return [_plain(member) for member in value] if isinstance(value, tuple) else value


def to_toml(config: Any) -> str:
    """The config as the text of a TOML file, which `--config` reads back."""
    import tomli_w

    return tomli_w.dumps(to_dict(config))


def describe(hint: Any) -> str:
    """The values of a field in words: "an integer of at least 1" or "one of cpu, cuda"."""
    base, meta = _strip(hint)
    if get_origin(base) in (Union, types.UnionType):
        return " or ".join(describe(member) for member in get_args(base))
    if get_origin(base) is Literal:
        return "one of " + ", ".join(map(str, get_args(base)))
    if get_origin(base) is tuple:
        return _describe_tuple(get_args(base), meta)
    if get_origin(base) is dict:
        return "a table of keys and values"
    words = _WORDS.get(base, getattr(base, "__name__", str(base)))
    return f"{words} {_describe_range(meta)}".rstrip()


def limits(hint: Any) -> str:
    """The range of a field in words, as in "from 1 to 64"; empty if it has none."""
    base, meta = _strip(hint)
    if get_origin(base) in (Union, types.UnionType):
        return next(filter(None, map(limits, get_args(base))), "")
    if get_origin(base) is tuple:
        inner = limits(get_args(base)[0])
        return f"each {inner}" if inner else ""
    return _describe_range(meta)


def _describe_range(meta: msgspec.Meta | None) -> str:
    if meta is None:
        return ""
    if meta.ge is not None and meta.le is not None:
        return f"from {meta.ge} to {meta.le}"
    ends = {"above": meta.gt, "of at least": meta.ge, "below": meta.lt, "of at most": meta.le}
    return " and ".join(f"{word} {n}" for word, n in ends.items() if n is not None)


_UNSOUND = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters and lone surrogates, which a file cannot hold."""

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    types.NoneType: "unset",
}


def _describe_tuple(members: tuple[Any, ...], meta: msgspec.Meta | None) -> str:
    many = members[-1] is Ellipsis
    if many:
        count = f"{meta.min_length} or more values" if meta and meta.min_length else "values"
    else:
        count = f"{len(members)} values"
    return f"a list of {count}, each {describe(members[0])}"


def _strip(hint: Any) -> tuple[Any, msgspec.Meta | None]:
    """A type without its annotations, and the range among them."""
    if get_origin(hint) is not Annotated:
        return hint, None
    base, *extras = get_args(hint)
    return base, next((extra for extra in extras if isinstance(extra, msgspec.Meta)), None)


def _wanted(value: Any, hint: Any) -> str:
    choices = literals(hint)
    close = nearest(value, choices) if isinstance(value, str) and choices else ""
    # Without a similar choice the clause would only repeat all choices.
    return describe(hint) + (f". {close}" if close.startswith("Did") else ".")


def literals(hint: Any) -> list[str]:
    """The text choices of a type."""
    base, _ = _strip(hint)
    if get_origin(base) is Literal:
        return [choice for choice in get_args(base) if isinstance(choice, str)]
    if get_origin(base) in (Union, types.UnionType):
        return [choice for member in get_args(base) for choice in literals(member)]
    return []


def _is_sound(value: Any) -> bool:
    """Whether a value has no NaN, infinity, or text that a file cannot hold."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return _UNSOUND.search(value) is None
    if isinstance(value, tuple | list):
        return all(map(_is_sound, value))
    return True


def _with_sources(sentence: str, values: Settings) -> str:
    """A sentence of `check`, followed by the sources of the fields that it names."""
    words = set(sentence.replace(",", " ").replace(".", " ").split())
    sources = [f"{n}: {s.source}" for n, s in values.items() if n in words and s.source]
    return f"{sentence.removesuffix('.')} ({'; '.join(sources)})." if sources else sentence


@functools.cache
def _class_docs(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    docs = {}
    for node, after in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            docs[node.target.id] = inspect.cleandoc(after.value.value)
    return docs
