"""The generated reference covers every setting, command and public name, and the navigation it."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
import yaml

import briskrl
from briskrl.algos.registry import ALGOS
from briskrl.cli.main import COMMANDS
from briskrl.core.config import field_docs, field_hints
from briskrl.core.registry import load_object
from briskrl.envs.registry import ENVS
from briskrl.training.config import Stage, TrainConfig
from briskrl.zoo import zoo_entries

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "docs" / "generate_reference.py"))["pages"]())


def test_every_setting_has_a_row_with_its_meaning(pages: dict[str, str]) -> None:
    text = "\n".join(page for path, page in pages.items() if path.startswith("reference/"))
    classes = {load_object(ALGOS.get(name).config) for name in ALGOS}
    classes |= {ENVS.get(name).load_config() for name in ENVS} | {TrainConfig, Stage}
    for cls in classes:
        for name in field_hints(cls):
            assert f"\n| `{name}` | " in text
            assert field_docs(cls)[name].split()[0] in text


def test_every_command_has_its_help(pages: dict[str, str]) -> None:
    for name in COMMANDS:
        assert f"## brisk {name}\n\n```text\nusage: brisk {name}" in pages["reference/commands.md"]
    assert pages["reference/commands.md"].count("## brisk bench ") > 5


def test_every_public_name_is_described(pages: dict[str, str]) -> None:
    for name in briskrl.__all__:
        assert name.startswith("__") or f"\n## {name}\n" in pages["reference/python.md"]


def test_every_page_is_in_the_navigation(pages: dict[str, str]) -> None:
    class Loader(yaml.SafeLoader):
        """Reads the file without MkDocs."""

    Loader.add_multi_constructor("", lambda loader, tag, node: None)
    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    listed = {path for section in nav for path in _paths(section)}
    written = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert listed == written | set(pages)


def _paths(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    members = entry.values() if isinstance(entry, dict) else entry
    return [path for member in members for path in _paths(member)]


def test_the_page_of_the_zoo_has_measured_entries_beside_published_scores(
    pages: dict[str, str],
) -> None:
    table, _, commands = pages["zoo.md"].partition("## Commands and settings")
    for entry in zoo_entries():
        assert f"- `{entry.command}`: " in commands
        row = next((line for line in table.splitlines() if f"| `{entry.name}` |" in line), "")
        assert bool(row) == bool(entry.measured)
        if row:
            assert f"{entry.measured['score']:g} ({entry.measured['bar']:g})" in row
            assert row.count("|") == 10
    ppo = next(line for line in table.splitlines() if "| `cartpole/dqn` |" in line)
    assert "dqn 500 at 50 k" in ppo
    assert "dqn 488.7" in ppo
