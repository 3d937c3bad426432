"""Help, listings and error messages import nothing that only training needs."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Brisk

HEAVY = ("torch", "numba", "gymnasium", "numpy", "rich", "PIL", "safetensors", "matplotlib", "ray")

WORDS = [
    ("--help",),
    ("--version",),
    (),
    ("train", "--help"),
    ("train", "snake", "--algo", "rainbow", "--help"),
    ("train", "snake", "--print-config"),
    ("train", "snake", "--lrr", "3"),
    ("train", "snake", "--lr", "-3"),
    ("resume", "--help"),
    ("eval", "--help"),
    ("play", "--help"),
    ("envs",),
    ("algos", "rainbow"),
    ("runs",),
    ("cluster", "--help"),
    ("cluster", "down", "--nodes", "2", "--nodess", "2"),
    ("compare", "--help"),
    ("compare", "runs", "--too", "3"),
    # Serves until its standard input ends, which is at once.
    ("dash", "--port", "0", "--no-browser", "--beside-run"),
]


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_nothing_heavy_is_imported(brisk: Brisk, words: tuple[str, ...]) -> None:
    done = brisk(*words, python=("-X", "importtime"))
    assert done.returncode in (0, 2)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "briskrl" in imported
    assert imported.isdisjoint(HEAVY)


def test_the_main_help_does_not_import_configs(brisk: Brisk) -> None:
    stderr = brisk("--help", python=("-X", "importtime")).stderr
    assert "argparse" not in stderr
    assert "msgspec" not in stderr
