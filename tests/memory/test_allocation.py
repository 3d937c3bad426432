from __future__ import annotations

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from briskrl.core.types import Batch
from briskrl.memory.prioritized import PrioritizedReplay
from briskrl.memory.replay import ReplayBuffer
from tests.memory.allocation import allocated
from tests.memory.reference import Feed, make_spec

NUM_ENVS = 65_536
PARTS = ["write", "write some", "sample", "feedback"]


def make_calls(kind):
    """One call per operation, on a memory whose ring has been overwritten."""
    spec = make_spec((5,), np.float32, mask=True)
    shape = {"spec": spec, "num_envs": NUM_ENVS, "capacity": 6 * NUM_ENVS, "n_step": 3}
    extra = {"alpha": 0.6} if kind is PrioritizedReplay else {}
    memory = kind(**shape, gamma=0.9, **extra)
    feed = Feed(spec, NUM_ENVS, seed=0)
    step = feed.step()
    ids = np.arange(0, NUM_ENVS, 2)
    for _ in range(8):
        memory.write(*step)
    rng = np.random.default_rng(0)
    out = Batch.allocate(spec, 8, 8192)
    errors = np.ones((8, 8192), np.float32)
    return {
        "write": lambda: memory.write(*step),
        "write some": lambda: memory.write(*step, ids),
        "sample": lambda: memory.sample(rng, 8, out),
        "feedback": lambda: memory.feedback(out, 8, errors),
    }


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplay])
def test_nothing_that_scales_is_allocated_per_call(kind, part):
    call = make_calls(kind)[part]
    kept, peak = allocated(call)
    # A flag per env or per sampled transition would be 64 KB; views and call frames are a few.
    assert peak < 16_384
    # CPython's method cache keeps the attribute names that Numba looks up in packed arguments.
    assert kept < 8192


@pytest.mark.parametrize("kind", [ReplayBuffer, PrioritizedReplay])
def test_kernels_allocate_no_arrays(kind):
    calls = make_calls(kind)
    _nrt_python.memsys_enable_stats()
    for call in calls.values():
        call()
        begin = rtsys.get_allocation_stats()
        call()
        end = rtsys.get_allocation_stats()
        # Every array argument is wrapped once; arrays of the kernel itself would count in addition.
        assert end.alloc - begin.alloc == end.mi_alloc - begin.mi_alloc
        assert end.alloc - begin.alloc == end.free - begin.free
