"""Gymnasium's CartPoleEnv; it shares the equations of our own CartPole.

Sine and cosine come from the C library, as in NumPy, not from our faster versions.
"""

from __future__ import annotations

import math

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.cartpole.kernels.step import (
    ANGLE_LIMIT,
    START,
    X_LIMIT,
    move,
    obs_size,
    observe_cart,
)
from briskrl.envs.gym.compiled.kernels.step import (
    ENDED,
    R_OWN,
    STATE,
    clear_counters,
    draw_uniform,
    end_step,
    is_invalid,
    open_memory,
    rebuild,
    record_episode,
)
from briskrl.envs.kernels.step_loop import REFUSED, EnvFunctions, build_step_kernels

NUM_STATE = 4
R_SUTTON_BARTO = R_OWN
"""Whether the reward is 0 per step and -1 at the end, instead of 1 per step."""


@inline_helper
def row_words(m):
    """Words per env."""
    return STATE + NUM_STATE


@helper
def draw_start(state, f64, base):
    """Draw the four state variables of a new episode."""
    for k in range(NUM_STATE):
        f64[base + STATE + k] = draw_uniform(state, base, -START, START)


@inline_helper
def begin_episode(m, base, i, lane):
    """Start a new episode."""
    draw_start(m.state, m.f64, base)
    clear_counters(m, base)


@inline_helper
def advance(m, base, i, lane, actions):
    """Step a cart; returns the reward, the cause of the end or 0, and whether it is terminal."""
    if is_invalid(m, i, actions[i]):
        return 0.0, REFUSED, False
    at = base + STATE
    angle = m.f64[at + 2]
    move(m.f64, at, actions[i], math.sin(angle), math.cos(angle))
    over = abs(m.f64[at]) > X_LIMIT or abs(m.f64[at + 2]) > ANGLE_LIMIT
    reward = 1.0
    if m.params[R_SUTTON_BARTO] != 0:
        reward = -1.0 if over else 0.0
    return end_step(m, base, reward, over)


@inline_helper
def observe(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe_cart(m.f64, base + STATE, obs, at)


KERNELS = build_step_kernels(
    EnvFunctions(
        ended=ENDED,
        open_memory=open_memory,
        row_words=row_words,
        begin_episode=begin_episode,
        advance=advance,
        record_episode=record_episode,
        observe=observe,
        observe_final=observe,
        rebuild=rebuild,
        obs_size=obs_size,
    )
)
