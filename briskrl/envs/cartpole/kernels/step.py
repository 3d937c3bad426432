"""The compiled cart and pole: one step of physics, and one loop over all carts of a batch.

A cart is one row of ROW 64-bit words, a cache line: the random state, four float64 numbers (where
the cart is, how fast it goes, how far the pole leans, how fast it turns), and its counters in views
of the same memory with other number types. `rules` holds the settings.

The equations are Gymnasium's, operation by operation in float64, and so are the results wherever
its sine and cosine round as those here do, which are good to the last bit or the one before.
"""

from __future__ import annotations

import math

import numpy as np

from briskrl.compiler.jit import helper, inline_helper, kernel
from briskrl.envs.kernels.episode_log import record, tick
from briskrl.envs.kernels.rng import draw_real
from briskrl.envs.kernels.step_loop import share_of

ROW = 8
RNG, X, SPEED, ANGLE, SPIN = range(5)
STEPS = 10
"""Place in a row seen as int32."""
ENDED = 22
"""Place in a row seen as int16."""

R_MAX_STEPS = 0
"""Place in `rules`; 0 there means no limit."""

SAME_STEP, NEXT_STEP, DISABLED, RESET, LOOK = range(5)
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
"""Below pi/4, where the series below hold."""


@inline_helper
def sin_cos(angle):
    """Sine and cosine, each with an error below one unit in the last place.

    For small angles the polynomials of FreeBSD's msun (k_sin.c, k_cos.c): they need no call and no
    table, so that the processor can work on several carts at once.
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
    # The second bracket is what rounding 1 - half has lost.
    return sine, whole + (((1.0 - whole) - half) + z * r)


@inline_helper
def move(f64, at, action, sine, cosine):
    """Move the cart whose four numbers begin at `at` by one step of explicit Euler integration.

    Sine and cosine are those of its pole's angle; whoever calls decides how they are rounded.
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
def cause_of(rules, f64, base, steps):
    """Why the episode ends in this state, or 0; a fall at the step limit is a fall."""
    if abs(f64[base + X]) > X_LIMIT:
        return OFF_TRACK
    if abs(f64[base + ANGLE]) > ANGLE_LIMIT:
        return FALLEN
    if steps >= rules[R_MAX_STEPS] and rules[R_MAX_STEPS] > 0:
        return STEP_LIMIT
    return 0


@helper
def restart(words, f64, i32, i16, base):
    """Begin a new episode on the running random stream."""
    for k in range(4):
        f64[base + X + k] = -START + 2.0 * START * draw_real(words, base + RNG)
    i32[base * 2 + STEPS] = 0
    i16[base * 4 + ENDED] = 0


@inline_helper
def observe(f64, at, shown, place):
    """Write what a player sees of the cart whose four numbers begin at `at`: them, as float32."""
    for k in range(4):
        shown[place + k] = np.float32(f64[at + k])


@kernel
def step(
    rules,
    words,
    log,
    actions,
    obs,
    reward,
    terminated,
    truncated,
    final_obs,
    low,
    high,
    lane,
    phase,
):
    """Advance the carts low..high-1 as `phase` says and write what they show."""
    f64, i32, i16 = words.view(np.float64), words.view(np.int32), words.view(np.int16)
    shown, final = obs.reshape(obs.size), final_obs.reshape(final_obs.size)
    if phase < RESET:
        tick(log, lane)
    for i in range(low, high):
        base = i * ROW
        cause = 0
        if phase != LOOK:
            if i16[base * 4 + ENDED] != 0:
                if phase == DISABLED:
                    continue
                restart(words, f64, i32, i16, base)
                reward[i], terminated[i], truncated[i] = 0.0, False, False
            elif phase == RESET:
                continue
            else:
                sine, cosine = sin_cos(f64[base + ANGLE])
                move(f64, base + X, actions[i], sine, cosine)
                steps = np.int64(i32[base * 2 + STEPS]) + 1
                i32[base * 2 + STEPS] = steps
                cause = cause_of(rules, f64, base, steps)
                reward[i] = 1.0
                terminated[i] = cause in (OFF_TRACK, FALLEN)
                truncated[i] = cause == STEP_LIMIT
        if cause != 0:
            i16[base * 4 + ENDED] = 1
            steps = i32[base * 2 + STEPS]
            # Every step is worth 1, so that return, score and length are the same number.
            record(log, lane, i, steps, steps, steps, cause == STEP_LIMIT, cause)
            if phase == SAME_STEP:
                observe(f64, base + X, final, i * 4)
                restart(words, f64, i32, i16, base)
        observe(f64, base + X, shown, i * 4)


share = share_of(step)
