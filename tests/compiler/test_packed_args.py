"""Kernels see the current contents of arguments that were unboxed once."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from briskrl.compiler.jit import kernel
from briskrl.compiler.packed_args import PackedArgs, unpack


class Pair(NamedTuple):
    numbers: Any
    factor: float


class Nested(NamedTuple):
    first: Pair
    rest: tuple[Any, ...]


@kernel
def scale_all(packed, more):
    """Multiply the first array by the factor, in place; returns the sum of all, and `more`."""
    nested = unpack(packed)
    total = more
    first = nested.first.numbers
    for i in range(first.shape[0]):
        first[i] *= nested.first.factor
        total += first[i]
    for numbers in nested.rest:
        for i in range(numbers.shape[0]):
            total += numbers[i, 0]
    return total


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_kernels_see_the_current_contents_of_arrays(dtype):
    first, second = np.arange(4).astype(dtype), np.ones((3, 2))
    packed = PackedArgs(Nested(Pair(first, 2), (second, second[:, ::-1].copy())))
    assert scale_all(packed, 0.5) == 0.5 + 2 * 6 + 3 + 3
    assert first.tolist() == [0, 2, 4, 6]
    second[:, 0] = 5
    assert scale_all(packed, 0.0) == 4 * 6 + 15 + 3


def test_arrays_live_as_long_as_their_packed_args():
    packed = PackedArgs(Nested(Pair(np.full(1000, 3.0), 1.0), (np.ones((2, 2)),)))
    gc.collect()
    others = [np.full(1000, 7.0) for _ in range(100)]
    assert scale_all(packed, 0.0) == 3002
    assert others[0][0] == 7


def test_updated_packed_args_keep_their_new_arrays_alive():
    packed = PackedArgs(Nested(Pair(np.full(1000, 3.0), 1.0), (np.ones((2, 2)),)))
    numbers = np.full(1000, 5.0)
    alive = weakref.ref(numbers)
    packed.update(Nested(Pair(numbers, 1.0), (np.ones((2, 2)),)))
    del numbers
    gc.collect()
    assert alive() is not None
    assert scale_all(packed, 0.0) == 5002


def test_tuples_of_other_types_are_distinguished():
    plain = PackedArgs(Nested(Pair(np.ones(2), 1.0), (np.ones((1, 1)),)))
    longer = PackedArgs(Nested(Pair(np.ones(2), 1.0), (np.ones((1, 1)), np.ones((4, 1)))))
    assert [scale_all(packed, 0.0) for packed in (plain, longer, plain)] == [3, 7, 3]


def test_kernels_with_packed_args_are_found_on_disk_by_a_later_process(tmp_path):
    code = (
        "import numpy as np\n"
        "from tests.compiler.test_packed_args import PackedArgs, Nested, Pair, scale_all\n"
        "packed = PackedArgs(Nested(Pair(np.ones(2), 3.0), (np.ones((1, 1)),)))\n"
        "print(scale_all(packed, 0.0), sum(scale_all.stats.cache_hits.values()))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": "."},
        ).stdout
        for _ in range(2)
    ]
    assert printed == ["7.0 0\n", "7.0 1\n"]
