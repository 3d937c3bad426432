"""MkDocs hook: pages that are made from the code when the site is built.

Settings come from the config dataclasses (names, types, ranges, defaults and the docstring under
each field), commands from their own `--help`, the Python API from `briskrl.__all__`. Nothing of
this is checked in, so it cannot go stale. A config class without a page in `mkdocs.yml` fails the
strict build.
"""

from __future__ import annotations

import dataclasses
import inspect
import io
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import briskrl
from briskrl.algos.registry import ALGOS
from briskrl.cli.flags import flag_name
from briskrl.cli.main import COMMANDS, main
from briskrl.core.aliases import field_aliases
from briskrl.core.config import (
    describe,
    field_defaults,
    field_docs,
    field_hints,
)
from briskrl.core.registry import load_object
from briskrl.core.text_values import show
from briskrl.envs.registry import ENVS
from briskrl.training.config import Stage, TrainConfig
from briskrl.workflows.config import SearcherConfig
from briskrl.workflows.run.config import WorkflowConfig
from briskrl.workflows.run.stop_config import StopConfig
from briskrl.zoo import ZooEntry, zoo_entries

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[1]
SAME_TASK = {"cartpole": "gym:CartPole-v1"}
"""Environments of ours whose published scores are under another name."""
_FLAGS = (
    f"As a flag, `num_envs` is written `{flag_name('num_envs')}`; settings that are true or false "
    "have the flags `--name` and `--no-name`."
)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    # Imported here so that the tests can make the pages without MkDocs.
    from mkdocs.structure.files import File

    for path, text in pages():
        files.append(File.generated(config, path, content=text))
    return files


def pages() -> Iterator[tuple[str, str]]:
    """Path in the site and Markdown of every generated page."""
    yield "reference/commands.md", commands_page()
    yield "reference/run.md", run_page()
    yield from algorithm_pages()
    yield from environment_pages()
    yield "reference/workflow-runs.md", workflow_runs_page()
    yield "reference/python.md", python_page()
    yield "zoo.md", zoo_page()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    yield "contributing.md", contributing.replace("](docs/", "](")
    security = (ROOT / "SECURITY.md").read_text()
    yield "security.md", security.replace("](docs/", "](")
    yield "changelog.md", (ROOT / "CHANGELOG.md").read_text()
    methods = (ROOT / "benchmarks" / "README.md").read_text()
    yield "benchmarks-methods.md", methods.replace("](../docs/", "](")


def commands_page() -> str:
    """The help text of every command, and of every `brisk bench` command."""
    parts = [
        "# Commands\n\nThe help of every command, as `brisk COMMAND --help` prints it.\n\n"
        f"## brisk\n\n{_help()}"
    ]
    parts += [f"## brisk {name}\n\n{_help(name)}" for name in COMMANDS]
    parts += [f"## brisk bench {name}\n\n{_help('bench', name)}" for name in _bench_commands()]
    return "\n\n".join(parts) + "\n"


def _bench_commands() -> list[str]:
    """The names under "commands:" in the help of `brisk bench`."""
    listing = _help("bench").partition("commands:\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in listing.splitlines()]


def _help(*words: str) -> str:
    printed = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with redirect_stdout(printed), suppress(SystemExit):
        main([*words, "--help"])
    return f"```text\n{printed.getvalue().strip()}\n```"


def run_page() -> str:
    """Settings of a run, and of the stages of a curriculum."""
    return (
        "# Settings of a run\n\n"
        "Keys at the top level of a config file, flags of `brisk train`, and fields of "
        f"`briskrl.TrainConfig`. {_FLAGS}\n\n"
        + _table(TrainConfig)
        + "\n\n## Stages of a curriculum\n\n"
        + "Keys of a `[[curriculum]]` table, and fields of `briskrl.Stage`; see "
        + "[Train with a curriculum](../how-to/curriculum.md).\n\n"
        + _table(Stage)
        + "\n"
    )


def workflow_runs_page() -> str:
    """Settings of `brisk workflow`."""
    return (
        "# Settings of runs under workflows\n\n"
        "Keys at the top level of a config file, flags of `brisk workflow search` and `joint`, and "
        f"fields of `briskrl.WorkflowConfig`. {_FLAGS}\n\n"
        + _table(WorkflowConfig)
        + "\n\n## Search\n\nKeys of `[searcher]`, and fields of `briskrl.SearcherConfig`.\n\n"
        + _table(SearcherConfig)
        + "\n\n## End of training\n\nKeys of `[stop]`.\n\n"
        + _table(StopConfig)
        + "\n"
    )


def zoo_page() -> str:
    """Measured entries of the zoo beside published scores, and the settings of all entries."""
    names = ("entry", "score (bar)", "seeds reached", "steps to bar", "CPU s to bar")
    names += ("all steps", "CPU s", "RL-Zoo", "CleanRL")
    entries = list(zoo_entries())
    return (
        "# Results of the zoo\n\n"
        "Tuned settings of the package, see [Use tuned settings](how-to/zoo.md). Scores are means "
        "over seeds that no setting was chosen with, of 100 games each without exploration. CPU "
        "seconds are those of training, on one busy core of a shared server. The steps and CPU "
        "seconds to the bar are those of the first of 20 evaluations of 20 games that reaches it, "
        "in the median over the seeds, where they were measured (`benchmarks/zoo_scores.py`). "
        "`brisk zoo check NAME` repeats a row with other seeds.\n\n"
        "The last two columns are what other libraries publish, with their number of steps: "
        "[RL-Zoo](https://github.com/DLR-RM/rl-baselines3-zoo/blob/master/benchmark.md) one run "
        "each, with the deterministic policy, and "
        "[CleanRL](https://docs.cleanrl.dev/rl-algorithms/overview/) the training episodes at the "
        "end of 500,000 steps, exploration included.\n\n"
        f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n"
        + "\n".join(_zoo_row(entry) for entry in entries if entry.measured)
        + "\n\n## Commands and settings\n\n"
        + "\n".join(
            f"- `{entry.command}`: {entry.describe() or 'the general defaults'}"
            for entry in entries
        )
        + "\n"
    )


def _zoo_row(entry: ZooEntry) -> str:
    """A measured entry as a row of the table."""
    found = entry.measured
    published = _published_scores().get(SAME_TASK.get(entry.env, entry.env), {})
    steps = found.get("steps_to_bar")
    cells = (
        f"`{entry.name}`",
        f"{found['score']:g} ({found['bar']:g})",
        f"{found['reached']} of {found['seeds']}",
        "-" if steps is None else f"{steps:,}",
        f"{found['cpu_s_to_bar']:g}" if "cpu_s_to_bar" in found else "-",
        f"{entry.run['steps']:,}",
        f"{found['cpu_s']:g}",
        published.get("rl_zoo", "-"),
        published.get("cleanrl", "-"),
    )
    return f"| {' | '.join(cells)} |"


@cache
def _published_scores() -> dict[str, dict[str, str]]:
    """Scores of other libraries by environment."""
    path = ROOT / "benchmarks" / "published_scores.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def algorithm_pages() -> Iterator[tuple[str, str]]:
    """A page per config class of the algorithm registry, with its presets."""
    by_class: dict[str, list[str]] = {}
    for name in ALGOS:
        by_class.setdefault(ALGOS.get(name).config, []).append(name)
    for address, names in by_class.items():
        cls = load_object(address)
        rows = [
            f"| `{name}` | {ALGOS.get(name).summary} | "
            f"{_values({**ALGOS.get(name).run_preset, **ALGOS.get(name).preset})} | "
            f"{_values({**ALGOS.get(name).python_run_preset, **ALGOS.get(name).python_preset})} |"
            for name in names
        ]
        title = cls.__name__.removesuffix("Config")
        text = (
            f"# Settings of {title}\n\n{_first_line(cls)}\n\n"
            f"Keys of `[algo_config]` in a config file, flags of `brisk train ENV --algo "
            f"{names[0]}`, and fields of `briskrl.{cls.__name__}`. {_FLAGS}\n\n{_table(cls)}\n\n"
            "## Presets\n\n"
            "A preset of `--algo` changes these defaults; every setting can still be given.\n\n"
            "The last column is for environments stepped in Python (`gym:`, and those passed to "
            "`train`), besides.\n\n"
            "| preset | summary | changes | in Python |\n| --- | --- | --- | --- |\n"
            + "\n".join(rows)
            + "\n"
        )
        yield f"reference/{title.lower()}.md", text


def environment_pages() -> Iterator[tuple[str, str]]:
    """A page per environment family that has settings of its own."""
    described: set[type] = set()
    for name in ENVS:
        family = ENVS.get(name)
        cls = family.load_config()
        if not field_hints(cls) or cls in described:
            continue
        described.add(cls)
        target = f"{name}:{family.member}" if family.member else name
        extras = ""
        if family.players:
            extras += f"\n\nPlayers (`--player`): {_names(family.players)}."
        if family.suites:
            extras += f"\n\nSuites (`--suite`): {_names(family.suites)}."
        if family.teachers:
            extras += f"\n\nTeachers (`--pretrain-from`): {_names(family.teachers)}."
        text = (
            f"# Settings of {name}\n\n{family.summary}.\n\n"
            f"Keys of `[env_config]` in a config file, flags of `brisk train {target}`, and "
            f"fields of `{cls.__module__}.{cls.__name__}`. {_FLAGS}\n\n{_table(cls)}{extras}\n"
        )
        yield f"reference/{name}.md", text


def _table(cls: type) -> str:
    """A Markdown table with one row per field."""
    docs, defaults = field_docs(cls), field_defaults(cls)
    others: dict[str, list[str]] = {}
    for alias, name in field_aliases(cls).items():
        others.setdefault(name, []).append(alias)
    rows = ["| setting | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, hint in field_hints(cls).items():
        meaning = _cell(docs.get(name, ""))
        if name in others:
            meaning += f" Also accepted as {_names(others[name])}."
        rows.append(
            f"| `{name}` | {_cell(describe(hint))} | {_default(defaults.get(name))} | {meaning} |"
        )
    return "\n".join(rows)


def _default(value: object) -> str:
    shown = show(value)
    return "" if shown == "-" else f"`{shown}`"


def _values(settings: Mapping[str, object]) -> str:
    return ", ".join(f"`{name} = {show(value)}`" for name, value in settings.items()) or "none"


def _names(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]


def python_page() -> str:
    """Signature and docstring of every public name."""
    parts = [
        "# Python API\n\nThe names that `briskrl` exports. Everything else is internal and may "
        "change without notice. Fields of the config classes are on their own pages.\n"
    ]
    for name in sorted(briskrl.__all__, key=str.lower):
        if name.startswith("__"):
            continue
        value = getattr(briskrl, name)
        if inspect.ismodule(value):
            continue
        parts.append(f"## {name}\n\n{_signature(name, value)}{_docstring(value)}{_fields(value)}")
    return "\n\n".join(parts) + "\n"


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value):
        return f"`{value.__module__}.{name}`\n\n"
    signature = inspect.signature(value)
    parameters = list(signature.parameters.values())
    arguments = [_argument(parameter) for parameter in parameters]
    keywords = [parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters]
    if True in keywords:
        arguments.insert(keywords.index(True), "*")
    body = "".join(f"    {argument},\n" for argument in arguments)
    returns = signature.return_annotation
    return f"```python\n{name}(\n{body}) -> {returns}\n```\n\n"


def _fields(value: Any) -> str:
    """The fields of a result; those of settings of a run have their own pages."""
    if not dataclasses.is_dataclass(value) or value in _classes_with_pages():
        return ""
    docs = field_docs(value)
    rows = [
        f"| `{field.name}` | `{_cell(str(field.type))}` | {_cell(docs.get(field.name, ''))} |"
        for field in dataclasses.fields(value)
    ]
    return "\n\n| field | type | meaning |\n| --- | --- | --- |\n" + "\n".join(rows)


def _classes_with_pages() -> set[type]:
    algorithms = {load_object(ALGOS.get(name).config) for name in ALGOS}
    return algorithms | {ENVS.get(name).load_config() for name in ENVS} | {TrainConfig, Stage}


def _argument(parameter: inspect.Parameter) -> str:
    """A parameter with its annotation as the source has it."""
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return text
    default = "..." if inspect.isfunction(parameter.default) else repr(parameter.default)
    return f"{text} = {default}"


def _docstring(value: Any) -> str:
    """The docstring; sections such as Args become a list."""
    lines: list[str] = []
    section = False
    for line in (inspect.getdoc(value) or "").splitlines():
        if line.rstrip(":") in ("Args", "Returns", "Raises", "Yields") and line.endswith(":"):
            lines += ["", f"**{line[:-1]}**", ""]
            section = True
        elif section and line.startswith("    ") and not line.startswith("     "):
            item, colon, text = line.strip().partition(":")
            lines.append(f"- `{item}`:{text}" if colon else f"- {item}")
        else:
            lines.append(line)
            section = section and bool(line.strip())
    return "\n".join(lines)


if __name__ == "__main__":
    for page, content in pages():
        print(f"{page}: {len(content):,} characters")
