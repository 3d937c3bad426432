"""Sample Gaussian actions and their log probabilities."""

from __future__ import annotations

import math

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array

HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)


@kernel
def sample_gaussian(out: Array, noise: Array, action: Array, log_prob: Array) -> None:
    """Draw continuous actions from independent normal distributions.

    The log probability is that of the action as it is stored, rounded to float32.

    Args:
        out: (N, 2 D) float32 means and log deviations.
        noise: (N, D) standard normal.
        action: (N, D) float32, written.
        log_prob: (N,) float32 log probability of all of them together, written.
    """
    size = action.shape[1]
    for row in range(action.shape[0]):
        total = 0.0
        for d in range(size):
            mean = float(out[row, d])
            log_std = float(out[row, size + d])
            action[row, d] = mean + math.exp(log_std) * noise[row, d]
            z = (action[row, d] - mean) * math.exp(-log_std)
            total -= 0.5 * z * z + log_std + HALF_LOG_TWO_PI
        log_prob[row] = total
