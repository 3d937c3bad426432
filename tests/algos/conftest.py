from __future__ import annotations

import pytest
import torch

# Spinning threads would take the cores from tests that run at the same time.
torch.set_num_threads(1)


@pytest.fixture(params=["torch", "fused"])
def engine(request: pytest.FixtureRequest) -> str:
    """Tests of an algorithm run on both engines."""
    return request.param
