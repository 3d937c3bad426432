"""Mix random actions into greedy ones."""

from __future__ import annotations

from briskrl.compiler.jit import kernel
from briskrl.core.types import Array


@kernel
def mix_random_actions(
    greedy: Array, draws: Array, epsilon: float, num_actions: int, mask: Array, out: Array
) -> None:
    """Replace a share epsilon of greedy actions by random legal ones.

    Args:
        greedy: (N,) int64.
        draws: (2, N) uniform in [0, 1): whether to explore, and which action then.
        epsilon: Share of random actions.
        num_actions: A.
        mask: (N, A) bool, or (0, 0) if every action is legal.
        out: (N,) int64, written.
    """
    masked = mask.shape[0] > 0
    for i in range(greedy.shape[0]):
        out[i] = greedy[i]
        if draws[0, i] >= epsilon:
            continue
        legal = 0
        if masked:
            for action in range(num_actions):
                legal += mask[i, action]
        if legal == 0:
            out[i] = int(draws[1, i] * num_actions)
            continue
        rank = int(draws[1, i] * legal)
        for action in range(num_actions):
            if mask[i, action]:
                if rank == 0:
                    out[i] = action
                    break
                rank -= 1
