from __future__ import annotations

import pytest
import torch

# Threads that wait for others by spinning take the cores from tests that run beside them.
torch.set_num_threads(1)


@pytest.fixture(params=["torch", "fused"])
def engine(request: pytest.FixtureRequest) -> str:
    """Every promise of an algorithm is kept by both engines."""
    return request.param
