"""Every code block of the quickstart, the how-to pages and the README runs, with tiny budgets.

The convention for authors:

- The blocks of a page run in order, in one empty folder.
- `sh`: every command must be `brisk ...`, optionally after `PYTHONPATH=.`. It runs in this process
  with the flags of `_shrink` appended, which override those on the page.
- `python`: runs in one namespace per page, after `_NUMBERS` has cut down steps, episodes and
  seconds. With `title="name.py"` the block is written to that file instead.
- `toml`: must be a valid config file; with `title="name.toml"` it is also written to that file.
- `<!-- not executed: reason -->` on the line before a block skips it; `SKIPPED` counts these.
- Blocks without a language are output or plain text.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from briskrl.algos.registry import ALGOS
from briskrl.cli.main import main
from briskrl.doctor import examination
from briskrl.training.resolve import load_config

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "quickstart.md",
    *sorted(DOCS.glob("how-to/*.md")),
    *sorted(DOCS.glob("coming-from/*.md")),
]

ENV_PAGES = [DOCS / f"environments/{name}.md" for name in ("cage2", "snake", "wildfire")]
"""Only their Python blocks run: the commands are long trainings and placeholders. The page of
CartPole has no Python block."""

SKIPPED = {
    "README.md": 1,
    "cleanrl.md": 1,
    "clusters.md": 4,
    "compare.md": 1,
    "dashboard.md": 2,
    "doctor.md": 3,
    "gymnasium.md": 1,
    "own-algorithm.md": 1,
    "own-script.md": 2,
    "quickstart.md": 2,
    "replicas.md": 2,
    "stable-baselines3.md": 1,
    "update-ratio.md": 2,
}
"""Blocks per page that are marked as not executed."""

_NUMBERS = [
    (r"\bsteps=([\d_]+)", lambda found: f"steps={int(found[1]) // 2000}"),
    (r"\bepisodes=[\d_]+", "episodes=2"),
    (r"\bseconds=[\d_]+", "seconds=1"),
]

_FENCE = re.compile(
    r"(?P<skip>^[ ]*<!-- not executed: (?P<reason>[^\n]+) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<info>[^\n]*)\n(?P<code>.*?)^(?P=indent)```[ ]*$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    code: str
    skipped: bool


def blocks_of(page: Path) -> Iterator[Block]:
    for found in _FENCE.finditer(page.read_text()):
        info = found["info"]
        title = re.search(r'title="([^"]+)"', info)
        indent = len(found["indent"])
        code = "".join(line[indent:] or "\n" for line in found["code"].splitlines(keepends=True))
        yield Block(
            language=info.split()[0] if info.strip() else "",
            title=title[1] if title else "",
            code=code,
            skipped=found["skip"] is not None,
        )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder that Python, and worker processes too, import from."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    # Pages may register algorithms.
    monkeypatch.setattr(ALGOS, "_entries", dict(ALGOS._entries))
    monkeypatch.setattr("briskrl.cli.doctor.LEAST_BUDGET", 0.0)
    monkeypatch.setattr(examination, "OBSERVED_S", 0.5)
    monkeypatch.setattr(examination, "AGAIN_S", 0.2)
    threads, modules = torch.get_num_threads(), set(sys.modules)
    yield tmp_path
    torch.set_num_threads(threads)
    for name in set(sys.modules) - modules:
        if (tmp_path / f"{name}.py").exists():
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_block_of_a_page_runs(
    page: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace: dict[str, object] = {"__name__": "page"}
    runner = Commands()
    for block in blocks_of(page):
        if block.skipped:
            continue
        if block.title:
            (folder / block.title).write_text(block.code)
        if block.language == "python" and not block.title:
            _run_python(block.code, page, namespace)
        elif block.language == "toml":
            path = folder / (block.title or "block.toml")
            path.write_text(block.code)
            load_config(path)
        elif block.language == "sh":
            for words in _commands(block.code):
                code, shown = runner.run(words), capsys.readouterr().err
                # With so small a budget, some runs end before their first update.
                assert code == 0 or "No update was done" in shown, f"{shlex.join(words)}\n{shown}"


@pytest.mark.parametrize("page", ENV_PAGES, ids=lambda page: page.stem)
def test_python_blocks_of_environment_pages_run(page: Path, folder: Path) -> None:
    (folder / "tests").symlink_to(ROOT / "tests")
    namespace: dict[str, object] = {"__name__": "page"}
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    for block in blocks:
        _run_python(block.code, page, namespace)
    # A page whose blocks are not found, or that imports nothing, would pass without being tested.
    assert blocks
    assert any(name not in ("__name__", "__builtins__") for name in namespace)


def test_skipped_blocks_have_a_reason_and_are_counted() -> None:
    counted = Counter(page.name for page in PAGES for block in blocks_of(page) if block.skipped)
    assert dict(counted) == SKIPPED


def test_fences_are_all_found_and_have_a_known_language() -> None:
    for page in PAGES:
        found = list(blocks_of(page))
        assert 2 * len(found) == page.read_text().count("```"), page.name
        assert {block.language for block in found} <= {"", "python", "sh", "toml"}, page.name


class Commands:
    """Runs commands of a page with small budgets; a resume trains a little further each time."""

    def __init__(self) -> None:
        self._steps = 600

    def run(self, words: list[str]) -> int:
        assert words[0] == "brisk", f"only brisk commands can be run: {words}"
        try:
            return main([*words[1:], *self._shrink(words[1:])])
        except SystemExit as left:  # by --help
            return int(left.code or 0)

    def _shrink(self, words: list[str]) -> list[str]:
        command = words[0]
        if command in ("train", "doctor", "tune"):
            # Two names of one setting must not have two values.
            steps = "--total-timesteps" if "--total-timesteps" in words else "--steps"
            envs = "--n-envs" if "--n-envs" in words else "--num-envs"
            flags = [envs, "8"] if command == "train" or _names_env(words) else []
            flags += [steps, "60" if "wildfire" in words else "600"] if command == "train" else []
            flags += ["--landscapes", "2"] if "wildfire" in words else []
            for flag, value in (
                ("--pretrain-steps", "4"),
                ("--pretrain-transitions", "64"),
                ("--eval-every", "200"),
            ):
                flags += [flag, value] if flag in words else []
            flags += ["--final-episodes", "2"] if command == "train" else []
            flags += {"doctor": ["--budget", "1"], "tune": ["--budget", "0.001"]}.get(command, [])
            return flags
        if command == "resume":
            self._steps += 600
            return ["--steps", str(self._steps), "--final-episodes", "2"]
        if command == "sweep" and words[1] not in ("resume", "show"):
            short = ["--steps", "600", "--num-envs", "8", "--eval-episodes", "2"]
            few = ["--trials", "2"] if "--search" in words else []
            return [*short, *few, "--jobs", "1", "--seeds", "1"]
        return {
            "eval": ["--episodes", "2"],
            "play": ["--fps", "1000"],
        }.get(command, [])


def _names_env(words: list[str]) -> bool:
    """Whether the target is an environment, so that flags of `brisk train` may follow."""
    return not any(words[1].startswith(other) for other in ("runs/", "zoo:", "-"))


def _commands(code: str) -> Iterator[list[str]]:
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] == "PYTHONPATH=.":
            words = words[1:]
        if words:
            yield words


def _run_python(code: str, page: Path, namespace: dict[str, object]) -> None:
    for pattern, replacement in _NUMBERS:
        code = re.sub(pattern, replacement, code)
    exec(compile(code, str(page), "exec"), namespace)
