"""The key of compiled code changes with every source that compiled code depends on, only then."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

import briskrl
from briskrl.compiler.cache_key import imported, kernel_sources, source_hash

PACKAGE = Path(briskrl.__file__).parent


@pytest.fixture(scope="module")
def sources():
    return kernel_sources(PACKAGE)


@pytest.fixture
def package(tmp_path):
    """A copy of the package that tests may change."""
    ignored = shutil.ignore_patterns("__pycache__", "*.toml", "*.npz")
    return Path(shutil.copytree(PACKAGE, tmp_path / "briskrl", ignore=ignored))


def module_name(path):
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


def path_of(package, name):
    path = package.parent.joinpath(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def parsed_imports(name, modules):
    """The modules of the package that a module imports, as Python's parser sees it."""
    found = set()
    for node in ast.walk(ast.parse(modules[name])):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                # This part of the package runs in interpreters that have no briskrl.
                assert name.startswith("briskrl.doctor.watcher."), f"{name} has a relative import"
                continue
            children = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= children & modules.keys()
            if not children <= modules.keys():
                found.add(node.module)
    return found & modules.keys()


def test_imports_are_found_as_the_parser_finds_them():
    modules = {module_name(path): path.read_bytes() for path in PACKAGE.rglob("*.py")}
    for name in modules:
        assert imported(name, modules) >= parsed_imports(name, modules), name


def test_sources_are_all_users_of_the_compiler_and_all_that_kernels_import(sources):
    modules = {module_name(path): path.read_bytes() for path in PACKAGE.rglob("*.py")}
    imports = {name: parsed_imports(name, modules) for name in modules}
    users = {
        name
        for name, used in imports.items()
        if any(f"{module}.".startswith("briskrl.compiler.") for module in used)
    }
    kernels = {name for name in modules if {"kernels", "compiler"} & set(name.split("."))}
    expected = users | kernels
    while more := {used for name in expected & kernels for used in imports[name]} - expected:
        expected |= more
        kernels |= more
    assert expected <= sources.keys()
    assert len(sources) < len(modules) / 2


def test_the_key_changes_with_every_source_that_kernels_depend_on(package, sources):
    key = source_hash(package, "1.0")
    for name, code in sources.items():
        path = path_of(package, name)
        path.write_bytes(code + b"\nCONSTANT = 1\n")
        assert source_hash(package, "1.0") != key, name
        path.write_bytes(code)
    assert source_hash(package, "1.0") == key


@pytest.mark.parametrize(
    "name",
    [
        "briskrl.fused.kernels.structs",
        "briskrl.fused.kernels.gemm_tile",
        "briskrl.nets.update_counters",
        "briskrl.algos.dqn.fused_engine",
        "briskrl.core.types",
    ],
)
def test_constants_types_and_intrinsics_without_a_decorator_count(name, sources):
    assert name in sources


def test_the_key_does_not_change_with_sources_that_kernels_do_not_depend_on(package):
    key = source_hash(package, "1.0")
    for name in ("cli/main.py", "training/loop.py", "algos/losses.py", "nets/bodies.py"):
        with (package / name).open("a") as source:
            source.write("\nCONSTANT = 1\n")
    assert source_hash(package, "1.0") == key


def test_the_key_changes_with_the_version_of_numba_and_with_the_name_of_a_source(package):
    key = source_hash(package, "1.0")
    assert source_hash(package, "1.1") != key
    (package / "fused/kernels/adam.py").rename(package / "fused/kernels/adam_step.py")
    assert source_hash(package, "1.0") != key


@pytest.mark.parametrize(
    "line",
    [
        "from briskrl.toy import CONSTANT",
        "from briskrl import toy",
        "import briskrl.toy as t",
        "from briskrl.toy import (\n    # a comment, with a comma\n    CONSTANT as C,\n)",
        "def f():\n    from briskrl import toy",
    ],
)
def test_every_form_of_import_is_followed(package, line):
    toy = package / "toy.py"
    toy.write_text("CONSTANT = 1\n")
    assert "briskrl.toy" not in kernel_sources(package)
    (package / "envs/kernels/more.py").write_text(f"{line}\n")
    assert "briskrl.toy" in kernel_sources(package)


@pytest.mark.parametrize(
    "line", ["from briskrl import compiler", "from briskrl.compiler.jit import kernel"]
)
def test_a_new_user_of_the_compiler_changes_the_key_wherever_it_is(package, line):
    key = source_hash(package)
    (package / "nets/fast.py").write_text("import math\n")
    assert source_hash(package) == key
    (package / "nets/fast.py").write_text(f"{line}\n")
    assert source_hash(package) != key
