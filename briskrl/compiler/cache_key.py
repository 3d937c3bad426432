"""The sources that compiled kernels depend on, and a hash of them.

Numba's cache notices changes in the file of a kernel, but not in the files of its helpers, nor in
constants that it freezes into compiled code. So the key covers every source that imports the
compiler package, every source in a `kernels` folder, and all modules that kernels import.

This runs at the first import of a kernel, so imports are found by two regular expressions: parsing
the same files takes forty times as long.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path

KERNEL_FOLDERS = ("kernels", "compiler")
"""Folders whose sources are compiled: whatever they import may be part of compiled code."""


def source_hash(package: Path, *extra: str) -> str:
    """A hash of all sources of a package that compiled code may depend on, and of more words."""
    digest = blake2b("\0".join(extra).encode(), digest_size=8)
    for name, code in sorted(kernel_sources(package).items()):
        digest.update(name.encode())
        digest.update(code)
    return digest.hexdigest()


def kernel_sources(package: Path) -> dict[str, bytes]:
    """The sources that compiled code may depend on, by module name."""
    modules = dict(_read_modules(package))
    compiler = f"{package.name}.compiler".encode()
    users = {
        name
        for name, code in modules.items()
        if b"compiler" in code and any(_is_in(compiler, used) for used in imported(name, modules))
    }
    kernels = (name for name in modules if _is_kernel(name))
    return {name: modules[name] for name in users | _closure(kernels, modules)}


def imported(name: str, modules: dict[str, bytes]) -> set[str]:
    """The modules of its own package that a module imports."""
    code, package = modules[name], name.partition(".")[0].encode()
    found = {match.decode() for match in re.findall(rb"import (%b[\w.]*)" % package, code)}
    pattern = rb"from (%b[\w.]*) import (\([^)]*\)|[^\n]*)" % package
    for source, names in re.findall(pattern, code):
        parent = source.decode()
        words = re.findall(r"(\w+)(?: as \w+)?", re.sub(rb"#.*", b"", names).decode())
        children = {f"{parent}.{word}" for word in words}
        submodules = {child for child in children if child in modules}
        found |= submodules
        # A package is executed for its submodules, but only what is imported of it matters.
        if submodules != children or not children:
            found.add(parent)
    return found & modules.keys()


def _read_modules(package: Path) -> Iterator[tuple[str, bytes]]:
    start = len(str(package.parent)) + 1
    for folder, _, files in os.walk(package):
        for file in files:
            if file.endswith(".py"):
                path = f"{folder}{os.sep}{file}"
                name = path[start:-3].replace(os.sep, ".").removesuffix(".__init__")
                with open(path, "rb") as source:
                    yield name, source.read()


def _closure(start: Iterable[str], modules: dict[str, bytes]) -> set[str]:
    """The given modules and all that they import, directly or not."""
    seen: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += imported(name, modules)
    return seen


def _is_kernel(name: str) -> bool:
    return any(folder in name.split(".") for folder in KERNEL_FOLDERS)


def _is_in(package: bytes, name: str) -> bool:
    return (name.encode() + b".").startswith(package + b".")
