"""The watcher must run in any Python from 3.8 on, with nothing but the standard library."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import briskrl.doctor.watcher

FILES = sorted(Path(briskrl.doctor.watcher.__file__).parent.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_imports_only_the_standard_library_and_is_python_3_8(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 8))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module)]
        else:
            continue
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
    assert "from __future__ import annotations" in path.read_text()
