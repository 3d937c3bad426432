"""Numba versions without the internals that are used here compile kernels with plain njit."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from briskrl.compiler import jit, numba_internals

ROOT = Path(__file__).parents[2]

USE = """
import logging
logging.basicConfig(format="LOG %(message)s")
{change}
import numpy as np
from briskrl.compiler import jit
from briskrl.compiler.math import exp_all, tanh_all
from briskrl.compiler.packed_args import PackedArgs, call_address, unpack

@jit.fastmath_helper
def total(values):
    result = 0.0
    for i in range(values.shape[0]):
        result += values[i]
    return result

@jit.inline_helper
def scaled(values, factor):
    return factor * total(values)

@jit.kernel
def use(packed, number):
    values, out, (factor, more) = unpack(packed)
    exp_all(values, out)
    out[0] = scaled(out, factor) + scaled(more[0], 3) + number

@jit.kernel
def call(function, packed, number):
    call_address(function, packed, number)

values, out = np.linspace(-1, 1, 1000), np.zeros(1000)
more = np.arange(6.0).reshape(2, 3)
packed = PackedArgs((values, out, (0.1, more)))
for _ in range(3):
    use(packed, 5)
print(out.sum().hex(), out[0].hex())
packed.update((values[::-1].copy(), out, (0.3, more)))
call(jit.function_address(use, packed, 0), packed.address, 7)
print(out.sum().hex(), out[0].hex())
singles = np.linspace(-3, 3, 77, dtype=np.float32)
tanh_all(singles)
print(float(singles.sum()).hex())
print("plain" if jit.PLAIN else "link-only")
"""

UNTESTED = """
import importlib.metadata as m; real = m.version
m.version = lambda name: '0.99.1' if name == 'numba' else real(name)
"""
CHANGES = {
    "no module": "import sys; sys.modules['briskrl.compiler.numba_internals'] = None",
    "no class": "import numba.core.codegen as c; del c.JITCodeLibrary",
    "no option": f"""{UNTESTED}
from numba.core.cpu import CPUTargetOptions
for base in CPUTargetOptions.__mro__:
    if "_nrt" in vars(base):
        delattr(base, "_nrt")
""",
}


def run(tmp_path, change):
    script = tmp_path / "use.py"
    script.write_text(USE.format(change=change))
    return subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=True,
        env={"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """What the kernels print when they are compiled with the internals."""
    *results, mode = run(tmp_path_factory.mktemp("usual"), "").stdout.splitlines()
    assert mode == "link-only"
    return results


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_kernels_compile_without_internals_and_give_equal_results(change, usual, tmp_path):
    found = run(tmp_path, change)
    *results, mode = found.stdout.splitlines()
    assert (results, mode) == (usual, "plain")
    assert not list(tmp_path.rglob("*.nb?"))
    logged = [line for line in found.stderr.splitlines() if line.startswith("LOG")]
    assert len(logged) == 1
    assert "internals of Numba" in logged[0]


def test_an_untested_version_that_works_is_used_as_it_is(usual, tmp_path):
    assert run(tmp_path, UNTESTED).stdout.splitlines() == [*usual, "link-only"]


def test_the_installed_version_passes_the_self_check():
    assert not jit.PLAIN
    numba_internals.run_self_check()


def test_the_tested_versions_are_those_of_the_project_file():
    bounds = re.search(r'"numba>=(.*),<(.*)"', (ROOT / "pyproject.toml").read_text())
    assert bounds is not None
    assert bounds.groups() == tuple(".".join(map(str, v)) for v in numba_internals.TESTED)
