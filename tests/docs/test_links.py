"""Links of the pages outside the site, and all paths that the documentation names, exist."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OUTSIDE = [
    ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
]
PAGES = [*OUTSIDE, *sorted(ROOT.glob("docs/**/*.md"))]

_FOLDERS = "briskrl|tests|benchmarks|examples|docs"
# Ids of Gymnasium look like paths, but end in a version.
_PATH = re.compile(rf"`((?:{_FOLDERS})/[\w./*-]+)(?<!-v\d)(?![\w-])")
_MODULE = re.compile(r"`(briskrl(?:\.\w+)+)")


@pytest.mark.parametrize("page", OUTSIDE, ids=lambda page: page.parent.name + "-" + page.stem)
def test_relative_links_outside_the_site_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    targets = re.findall(r'\]\(([^)#]+)|src="([^"]+)"', text)
    assert targets
    for target in filter(None, (link or source for link, source in targets)):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "-" + page.stem)
def test_files_named_on_a_page_exist(page: Path) -> None:
    for path in _PATH.findall(page.read_text()):
        assert list(ROOT.glob(path.rstrip("./"))), path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name + "-" + page.stem)
def test_python_names_on_a_page_can_be_imported(page: Path) -> None:
    for name in _MODULE.findall(page.read_text()):
        assert _resolves(name), name


def _resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute below one."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False
