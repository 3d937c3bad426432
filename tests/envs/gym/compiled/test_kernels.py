"""Random numbers and sines in kernels are bit-identical to NumPy."""

from __future__ import annotations

import math

import numba
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from briskrl.envs.gym.compiled.kernels.step import draw_uniforms, high_word

WORD = 2**64
words = st.integers(0, WORD - 1)


@numba.njit
def upper_half(a, b):
    return high_word(a, b)


@given(words, words)
def test_high_word_is_the_upper_half_of_the_product(a: int, b: int) -> None:
    assert int(upper_half(np.uint64(a), np.uint64(b))) == a * b >> 64


@given(
    st.integers(0, WORD**2 - 1),
    st.integers(0, WORD**2 // 2 - 1),
    st.floats(-1e9, 1e9),
    st.floats(0, 1e9),
)
def test_uniform_draws_equal_numpy_from_any_state(
    state: int, half_inc: int, low: float, width: float
) -> None:
    inc, high = 2 * half_inc + 1, low + width
    bits = np.random.PCG64()
    bits.state = {
        "bit_generator": "PCG64",
        "state": {"state": state, "inc": inc},
        "has_uint32": 0,
        "uinteger": 0,
    }
    expected = np.random.Generator(bits).uniform(low, high, 50)
    held = np.array([*divmod(state, WORD), *divmod(inc, WORD)], np.uint64)
    found = np.empty(50)
    draw_uniforms(held, low, high, found)
    np.testing.assert_array_equal(found, expected)
    after = bits.state["state"]
    assert held.tolist() == [*divmod(after["state"], WORD), *divmod(after["inc"], WORD)]


@numba.njit(error_model="numpy")
def compiled_sines(angles, sines, cosines):
    for i in range(len(angles)):
        sines[i], cosines[i] = math.sin(angles[i]), math.cos(angles[i])


def test_compiled_sines_are_bit_identical_to_numpy() -> None:
    """Densely over the angles of CartPole's episodes, and far beyond."""
    rng = np.random.default_rng(1)
    for widest in (1e-5, 0.25, 0.5, 50.0):
        angles = rng.uniform(-widest, widest, 500_000)
        sines, cosines = np.empty_like(angles), np.empty_like(angles)
        compiled_sines(angles, sines, cosines)
        np.testing.assert_array_equal(sines, np.sin(angles))
        np.testing.assert_array_equal(cosines, np.cos(angles))
        few = angles[:5000]
        # Gymnasium computes one at a time.
        np.testing.assert_array_equal(sines[:5000], [np.sin(angle) for angle in few])
        np.testing.assert_array_equal(cosines[:5000], [np.cos(angle) for angle in few])
