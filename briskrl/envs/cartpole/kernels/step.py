"""The physics of CartPole, bound to the generic step loop.

A cart is one row of ROW 64-bit words, a cache line: the random state, four float64 numbers (cart
position and velocity, pole angle and angular velocity), and counters in views of the same memory.
`params` holds the settings.

The equations are Gymnasium's, operation by operation in float64. Results are equal wherever its
sine and cosine round like the ones here, which have an error below one unit in the last place.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.kernels.episode_log import record
from briskrl.envs.kernels.rng import draw_real
from briskrl.envs.kernels.step_loop import EnvFunctions, build_step_kernels

ROW = 8
RNG, X, SPEED, ANGLE, SPIN = range(5)
STEPS = 10
"""Place in a row seen as int32."""
ENDED = 22
"""Place in a row seen as int16."""

R_MAX_STEPS = 0
"""Place in `params`; 0 there means no limit."""

OFF_TRACK, FALLEN, STEP_LIMIT = range(1, 4)
"""Why an episode ends."""

GRAVITY, CART_MASS, POLE_MASS, HALF_POLE, FORCE, STEP_S = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
MASS = POLE_MASS + CART_MASS
POLE_MOMENT = POLE_MASS * HALF_POLE
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360
START = 0.05
"""Each of the four numbers starts within this distance of 0."""
SMALL_ANGLE = 0.78
"""Below pi/4, where the polynomials hold."""


@inline_helper
def sin_cos(angle):
    """Sine and cosine, each with an error below one unit in the last place.

    Small angles use the polynomials of FreeBSD's msun (k_sin.c, k_cos.c): without a call or a
    table, the processor can overlap the work of several carts.
    """
    if abs(angle) > SMALL_ANGLE:
        return math.sin(angle), math.cos(angle)
    z = angle * angle
    r = 8.33333333332248946124e-03 + z * (
        -1.98412698298579493134e-04
        + z
        * (
            2.75573137070700676789e-06
            + z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)
        )
    )
    sine = angle + z * angle * (-1.66666666666666324348e-01 + z * r)
    r = z * (
        4.16666666666666019037e-02
        + z
        * (
            -1.38888888888741095749e-03
            + z
            * (
                2.48015872894767294178e-05
                + z
                * (
                    -2.75573143513906633035e-07
                    + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11)
                )
            )
        )
    )
    half = 0.5 * z
    whole = 1.0 - half
    # The second bracket is the rounding error of 1 - half.
    return sine, whole + (((1.0 - whole) - half) + z * r)


@inline_helper
def move(f64, at, action, sine, cosine):
    """Move the cart whose four numbers begin at `at` by one step of explicit Euler integration.

    The caller computes sine and cosine of the angle, because families round them differently.
    """
    x, speed, angle, spin = f64[at], f64[at + 1], f64[at + 2], f64[at + 3]
    force = FORCE if action == 1 else -FORCE
    thrust = (force + POLE_MOMENT * (spin * spin) * sine) / MASS
    turn = (GRAVITY * sine - cosine * thrust) / (
        HALF_POLE * (4.0 / 3.0 - POLE_MASS * (cosine * cosine) / MASS)
    )
    pull = thrust - POLE_MOMENT * turn * cosine / MASS
    f64[at] = x + STEP_S * speed
    f64[at + 1] = speed + STEP_S * pull
    f64[at + 2] = angle + STEP_S * spin
    f64[at + 3] = spin + STEP_S * turn


@inline_helper
def cause_of(params, f64, base, steps):
    """Why the episode ends in this state, or 0; a fall at the step limit is a fall."""
    if abs(f64[base + X]) > X_LIMIT:
        return OFF_TRACK
    if abs(f64[base + ANGLE]) > ANGLE_LIMIT:
        return FALLEN
    if steps >= params[R_MAX_STEPS] and params[R_MAX_STEPS] > 0:
        return STEP_LIMIT
    return 0


@inline_helper
def observe_cart(f64, at, obs, place):
    """Write the four numbers that begin at f64[at] to obs[place:], as float32."""
    for k in range(4):
        obs[place + k] = np.float32(f64[at + k])


class Memory(NamedTuple):
    """The arrays of a batch of carts; all but `params` are views of the same memory."""

    params: np.ndarray
    state: np.ndarray
    f64: np.ndarray
    i32: np.ndarray


@inline_helper
def open_memory(params, state):
    """The arrays of a batch."""
    return Memory(params, state, state.view(np.float64), state.view(np.int32))


@inline_helper
def row_words(m):
    """Words per cart."""
    return ROW


@helper
def draw_start(state, f64, base):
    """Draw the four numbers of a new episode."""
    for k in range(4):
        f64[base + X + k] = -START + 2.0 * START * draw_real(state, base + RNG)


@inline_helper
def begin_episode(m, base, i, lane):
    """Start a new episode on the running random stream."""
    draw_start(m.state, m.f64, base)
    m.i32[base * 2 + STEPS] = 0


@inline_helper
def advance(m, base, i, lane, actions):
    """Move a cart; returns the reward, the cause of the end or 0, and whether it is terminal."""
    sine, cosine = sin_cos(m.f64[base + ANGLE])
    move(m.f64, base + X, actions[i], sine, cosine)
    steps = np.int64(m.i32[base * 2 + STEPS]) + 1
    m.i32[base * 2 + STEPS] = steps
    cause = cause_of(m.params, m.f64, base, steps)
    return 1.0, cause, cause in (OFF_TRACK, FALLEN)


@inline_helper
def record_episode(m, base, i, lane, log, cause):
    """Write the record of an ended episode."""
    steps = m.i32[base * 2 + STEPS]
    # The reward of every step is 1, so return, score and length are the same number.
    record(log, lane, i, steps, steps, steps, cause == STEP_LIMIT, cause)


@inline_helper
def observe(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe_cart(m.f64, base + X, obs, at)


@inline_helper
def rebuild(m, base, i, lane):
    """Do nothing: no memory is derived from the state."""


@inline_helper
def obs_size(obs, reward):
    """Numbers of an observation."""
    return 4


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
