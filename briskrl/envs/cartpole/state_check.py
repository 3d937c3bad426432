"""Checks a loaded state of carts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from briskrl.core.state_checks import check_finite, check_range
from briskrl.envs.cartpole.kernels import step as k


def check_carts(rows: NDArray[np.uint64]) -> None:
    """Check the memory of carts (N, row_words).

    Raises:
        InvalidStateError: No cart can have written it.
    """
    check_finite("cartpole: position", rows.view(np.float64)[:, k.X : k.X + 4])
    check_range("cartpole: steps", rows.view(np.int32)[:, k.STEPS], 0, np.iinfo(np.int32).max - 1)
