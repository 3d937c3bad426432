"""Compiled code is found on disk by later processes, and never for other arguments."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from briskrl.compiler import jit


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache of compiled code."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jit.cache_folder.cache_clear()
    yield tmp_path
    jit.cache_folder.cache_clear()


def increment(values):
    for i in range(values.shape[0]):
        values[i] += 1


def incremented(compiled, dtype):
    values = np.array([1, 2, 3], dtype)
    compiled(values)
    return values.tolist()


def test_code_for_other_arguments_is_never_found_when_two_compile_at_once(cache):
    first, second = jit.kernel(increment), jit.kernel(increment)
    # Both look into the empty index before either writes, and the first is the last to write code.
    late = []
    save, first._cache._save = first._cache._save, lambda *args: late.append(args)
    first._cache._load_index = second._cache._load_index = dict
    assert incremented(first, np.float64) == incremented(second, np.int64) == [2, 3, 4]
    save(*late[0])

    third = jit.kernel(increment)
    assert incremented(third, np.float64) == incremented(third, np.int64) == [2, 3, 4]
    assert sum(third.stats.cache_hits.values()) == 1


def test_a_later_process_finds_what_an_earlier_one_has_compiled(cache):
    code = (
        "import numpy as np\n"
        "from briskrl.compiler.math import tanh_all\n"
        "tanh_all(np.zeros(4, np.float32))\n"
        "print(sum(tanh_all.stats.cache_hits.values()))"
    )
    hits = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in hits] == ["0", "1"]


def test_a_helper_is_compiled_once_for_all_integers_and_python_cannot_call_it():
    @jit.helper
    def add(values, number):
        values[0] += number

    @jit.kernel
    def add_three_times(values):
        add(values, 1)
        add(values, 20)
        add(values, values.shape[0])

    values = np.zeros(300)
    add_three_times(values)
    assert values[0] == 321
    assert len(add.signatures) == 1
    with pytest.raises(TypeError, match="only kernels can call it"):
        add(values, 1)


def test_helpers_have_no_machine_code():
    @jit.helper
    def double(values):
        values[0] *= 2

    @jit.kernel
    def double_twice(values):
        double(values)
        double(values)

    values = np.ones(1)
    double_twice(values)
    assert values[0] == 4

    def has_machine_code(compiled):
        made = compiled.overloads[compiled.signatures[0]]
        return made.library.get_pointer_to_function(made.fndesc.llvm_func_name) != 0

    assert has_machine_code(double_twice)
    assert not has_machine_code(double)


PRINTING = """
import numpy as np
from briskrl.compiler import jit

@jit.helper
def look(values):
    print("looking at", values[0])
    if values[0] > 5:
        raise ValueError("too much")

@jit.helper
def look_twice(values):
    look(values)
    values[0] += 5
    print("again")
    look(values)

@jit.kernel
def watch(values):
    look_twice(values)

try:
    watch(np.ones(1))
except ValueError as error:
    print(error)
print(sum(watch.stats.cache_hits.values()))
"""


def test_helpers_can_print_and_raise_when_compiled_and_when_found_again(cache, tmp_path):
    script = tmp_path / "printing.py"
    script.write_text(PRINTING)
    for hits in range(2):
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
        printed = ["looking at 1.0", "again", "looking at 6.0", "too much", f"{hits}"]
        assert run.stdout.splitlines() == printed, run.stderr
