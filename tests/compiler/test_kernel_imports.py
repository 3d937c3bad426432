"""Kernels import only kernels, the compiler and plain types; and only kernels use decorators."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import briskrl

PACKAGE = Path(briskrl.__file__).parent

PLAIN_TYPES = {"briskrl.core.types", "briskrl.nets.update_counters"}
"""Modules of types and constants that kernels may import besides kernels."""
LIBRARIES = {"numpy", "numba", "llvmlite", *sys.stdlib_module_names}

FILES = {
    ".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts): p for p in PACKAGE.rglob("*.py")
}
KERNELS = [name for name in FILES if "kernels" in name.split(".")]


def imports_of(name):
    for node in ast.walk(ast.parse(FILES[name].read_text())):
        if isinstance(node, ast.ImportFrom):
            # A relative import ("from .counts import Counts") begins at the folder of its module.
            folder = name.split(".")[: -node.level] if node.level else []
            parts = [*folder, *([node.module] if node.module else [])]
            yield ".".join(parts), [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def is_allowed(module, names):
    parts = module.split(".")
    if parts[0] != "briskrl":
        return parts[0] in LIBRARIES
    return (
        "kernels" in parts
        or names == ["kernels"]
        or parts[1:2] == ["compiler"]
        or module in PLAIN_TYPES
    )


def test_kernels_import_only_kernels_the_compiler_and_plain_types():
    assert len(KERNELS) > 30
    wrong = [
        f"{name} imports {module}"
        for name in KERNELS
        for module, names in imports_of(name)
        if not is_allowed(module, names)
    ]
    assert wrong == []


def test_kernels_are_defined_in_kernels_folders_only():
    wrong = [
        name
        for name in FILES
        if name not in KERNELS and not name.startswith("briskrl.compiler.")
        for module, names in imports_of(name)
        if (
            module == "briskrl.compiler.jit"
            and any(word.endswith(("kernel", "helper")) for word in names)
        )
        or module == "briskrl.compiler"
        or module.startswith("numba.extending")
    ]
    assert wrong == []


def test_plain_types_are_free_of_compiled_code():
    for name in PLAIN_TYPES:
        modules = {module.split(".")[0] for module, _ in imports_of(name)}
        assert modules <= LIBRARIES - {"numba", "llvmlite"} | {"briskrl"}
