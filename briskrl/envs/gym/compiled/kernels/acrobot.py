"""Gymnasium's AcrobotEnv with the equations of the book, operation by operation.

A step integrates angles and angular velocities in float64 by one step of Runge-Kutta of order 4.
Sine and cosine come from the C library there, as in NumPy. The start of an episode is in float32,
whose sine and cosine NumPy computes with polynomials of its own; so do we.
"""

from __future__ import annotations

import math

import numpy as np

from briskrl.compiler.jit import helper, inline_helper
from briskrl.envs.gym.compiled.kernels.step import (
    ENDED,
    R_OWN,
    STATE,
    STEPS,
    clear_counters,
    draw_uniform,
    end_step,
    is_invalid,
    open_memory,
    rebuild,
    record_episode,
)
from briskrl.envs.kernels.step_loop import REFUSED, EnvFunctions, build_step_kernels

NUM_STATE, NUM_OBS = 4, 6
ANGLE_1, ANGLE_2, SPIN_1, SPIN_2 = range(STATE, STATE + NUM_STATE)

STEP_S = 0.2
MAX_SPIN_1, MAX_SPIN_2 = 4 * math.pi, 9 * math.pi
GRAVITY, INERTIA = 9.8, 1.0
CENTER = 0.5
"""Distance of a link's center of mass from its joint; links have length and mass 1."""
START = 0.1
"""Each of the four numbers starts within this distance of 0."""
TURN = math.pi - -math.pi

R_EXPONENT = R_OWN
"""2, the exponent of squares. It is a setting because NumPy squares a float64 by the `pow` of the C
library, which now and then rounds unlike x * x, by which compilers replace a constant exponent."""

COSINE = tuple(
    np.float32(float.fromhex(digits))
    for digits in ("0x1.98e616p-16", "-0x1.6c06dcp-10", "0x1.55553cp-5", "-0x1p-1", "0x1p0")
)
SINE = tuple(
    np.float32(float.fromhex(digits))
    for digits in ("0x1.7d3bbcp-19", "-0x1.a06bbap-13", "0x1.11119ap-7", "-0x1.555556p-3", "0x0p0")
)
"""Coefficients of NumPy's polynomials for float32 in the square of an angle up to pi/4, highest
first; that of the sine is for sin(x) / x - 1."""


@inline_helper
def row_words(m):
    """Words per env."""
    return STATE + NUM_STATE


@inline_helper
def obs_size(obs, reward):
    """Numbers of an observation."""
    return NUM_OBS


@helper
def draw_start(state, f64, base):
    """Draw the four state variables of a new episode."""
    for k in range(NUM_STATE):
        f64[base + STATE + k] = np.float32(draw_uniform(state, base, -START, START))


@inline_helper
def begin_episode(m, base, i, lane):
    """Start a new episode."""
    draw_start(m.state, m.f64, base)
    clear_counters(m, base)


@helper
def accelerations(angle_1, angle_2, spin_1, spin_2, torque, exponent):
    """The angular accelerations of both links (Sutton and Barto's book, not the first paper)."""
    sine, cosine = math.sin(angle_2), math.cos(angle_2)
    d1 = CENTER**2 + (1 + CENTER**2 + 2 * CENTER * cosine) + INERTIA + INERTIA
    d2 = CENTER**2 + CENTER * cosine + INERTIA
    phi2 = CENTER * GRAVITY * math.cos(angle_1 + angle_2 - math.pi / 2)
    phi1 = (
        -CENTER * spin_2**exponent * sine
        - 2 * CENTER * spin_2 * spin_1 * sine
        + (CENTER + 1) * GRAVITY * math.cos(angle_1 - math.pi / 2)
        + phi2
    )
    second = (torque + d2 / d1 * phi1 - CENTER * spin_1**exponent * sine - phi2) / (
        CENTER**2 + INERTIA - d2**exponent / d1
    )
    return -(d2 * second + phi1) / d1, second


@inline_helper
def mean_slope(first, second, third, fourth):
    """The slope of Runge-Kutta, times its factor."""
    return STEP_S / 6 * (first + 2 * second + 2 * third + fourth)


@helper
def wrap(angle):
    """An angle within -pi to pi."""
    while angle > math.pi:
        angle -= TURN
    while angle < -math.pi:
        angle += TURN
    return angle


@helper
def move(f64, base, torque, exponent):
    """Advance the links by one step."""
    p, q = f64[base + ANGLE_1], f64[base + ANGLE_2]
    u, v = f64[base + SPIN_1], f64[base + SPIN_2]
    half = STEP_S / 2
    u1, v1 = u, v
    du1, dv1 = accelerations(p, q, u1, v1, torque, exponent)
    u2, v2 = u + half * du1, v + half * dv1
    du2, dv2 = accelerations(p + half * u1, q + half * v1, u2, v2, torque, exponent)
    u3, v3 = u + half * du2, v + half * dv2
    du3, dv3 = accelerations(p + half * u2, q + half * v2, u3, v3, torque, exponent)
    u4, v4 = u + STEP_S * du3, v + STEP_S * dv3
    du4, dv4 = accelerations(p + STEP_S * u3, q + STEP_S * v3, u4, v4, torque, exponent)
    u += mean_slope(du1, du2, du3, du4)
    v += mean_slope(dv1, dv2, dv3, dv4)
    f64[base + ANGLE_1] = wrap(p + mean_slope(u1, u2, u3, u4))
    f64[base + ANGLE_2] = wrap(q + mean_slope(v1, v2, v3, v4))
    f64[base + SPIN_1] = min(max(u, -MAX_SPIN_1), MAX_SPIN_1)
    f64[base + SPIN_2] = min(max(v, -MAX_SPIN_2), MAX_SPIN_2)


@inline_helper
def advance(m, base, i, lane, actions):
    """Step the links; returns the reward, the cause of the end or 0, and whether it is terminal."""
    if is_invalid(m, i, actions[i]):
        return 0.0, REFUSED, False
    move(m.f64, base, np.float64(actions[i]) - 1.0, np.float64(m.params[R_EXPONENT]))
    angle = m.f64[base + ANGLE_1]
    over = -math.cos(angle) - math.cos(m.f64[base + ANGLE_2] + angle) > 1.0
    return end_step(m, base, 0.0 if over else -1.0, over)


@inline_helper
def multiply_add(a, b, c):
    """The float32 a * b + c, rounded once."""
    return np.float32(np.float64(a) * np.float64(b) + np.float64(c))


@helper
def start_sin_cos(angle):
    """NumPy's sine and cosine of a small float32."""
    square = angle * angle
    sine, cosine = SINE[0], COSINE[0]
    for k in range(1, len(SINE)):
        sine = multiply_add(sine, square, SINE[k])
        cosine = multiply_add(cosine, square, COSINE[k])
    return multiply_add(sine, angle, angle), cosine


@helper
def observe_links(f64, base, begins, obs, at):
    """Write the cosines and sines of both angles, and the angular velocities."""
    for k in range(2):
        angle = f64[base + ANGLE_1 + k]
        if begins:
            sine, cosine = start_sin_cos(np.float32(angle))
        else:
            sine, cosine = np.float32(math.sin(angle)), np.float32(math.cos(angle))
        obs[at + 2 * k], obs[at + 2 * k + 1] = cosine, sine
        obs[at + 4 + k] = f64[base + SPIN_1 + k]


@inline_helper
def observe(m, base, lane, obs, at):
    """Write the observation to obs[at:]."""
    observe_links(m.f64, base, m.i32[base * 2 + STEPS] == 0, obs, at)


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
