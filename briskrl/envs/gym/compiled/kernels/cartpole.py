"""One step of Gymnasium's CartPoleEnv; it shares the equations of our own CartPole.

Sine and cosine come from the C library, as in NumPy, not from our faster versions.
"""

from __future__ import annotations

import math

from briskrl.compiler.jit import inline_helper
from briskrl.envs.cartpole.kernels.step import ANGLE_LIMIT, START, X_LIMIT, move, observe
from briskrl.envs.gym.compiled.kernels.step import R_OWN, STATE, draw_uniform, step_of
from briskrl.envs.kernels.step_loop import share_of

NUM_STATE = 4
R_SUTTON_BARTO = R_OWN
"""Whether the reward is 0 per step and -1 at the end, instead of 1 per step."""


@inline_helper
def advance(params, f64, at, action):
    """Step a cart and its pole."""
    angle = f64[at + 2]
    move(f64, at, action, math.sin(angle), math.cos(angle))
    over = abs(f64[at]) > X_LIMIT or abs(f64[at + 2]) > ANGLE_LIMIT
    if params[R_SUTTON_BARTO] == 0:
        return 1.0, over
    return (-1.0 if over else 0.0), over


@inline_helper
def begin(state, f64, base):
    """Draw the four state variables of a new episode."""
    for k in range(NUM_STATE):
        f64[base + STATE + k] = draw_uniform(state, base, -START, START)


step = step_of(advance, begin, observe, num_state=NUM_STATE, num_obs=NUM_STATE)
share = share_of(step)
