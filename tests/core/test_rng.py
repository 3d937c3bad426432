"""Named random streams: independent of one another, and exactly restored."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from briskrl.core.rng import Streams, derive_seed

NAMES = ("explore", "sample", "init", "noise", "env", "evaluate", "aampls", "elpmas")


@pytest.mark.parametrize(("one", "other"), list(combinations(NAMES, 2)))
def test_streams_of_different_names_have_different_numbers(one: str, other: str) -> None:
    streams = Streams(3)
    assert not np.array_equal(streams[one].random(8), streams[other].random(8))
    assert derive_seed(3, one) != derive_seed(3, other)


def test_the_numbers_of_a_stream_depend_on_the_seed_and_its_name_alone() -> None:
    first, second = Streams(3), Streams(3)
    second["explore"].random(100)
    np.testing.assert_array_equal(first["sample"].random(8), second["sample"].random(8))
    assert not np.array_equal(Streams(4)["sample"].random(8), Streams(3)["sample"].random(8))
    assert first["sample"] is first["sample"]


def test_derived_seeds_have_63_bits_and_neighbors_are_unrelated() -> None:
    seeds = [derive_seed(root, "env") for root in range(1000)]
    assert len(set(seeds)) == 1000
    assert 0 <= min(seeds) < max(seeds) < 2**63
    assert max(seeds) > 2**61
    ones = [bin(a ^ b).count("1") for a, b in pairwise(seeds)]
    assert np.mean(ones) == pytest.approx(31.5, abs=1)


def test_loading_restores_every_stream_and_restarts_those_that_were_not_saved() -> None:
    streams = Streams(3)
    streams["explore"].random(5)
    saved = streams.state()
    expected = streams["explore"].random(8)
    streams["sample"].random(5)
    streams.load_state(saved)
    np.testing.assert_array_equal(streams["explore"].random(8), expected)
    np.testing.assert_array_equal(streams["sample"].random(8), Streams(3)["sample"].random(8))


def test_streams_can_be_loaded_before_their_first_use() -> None:
    streams = Streams(3)
    streams["explore"].random(5)
    fresh = Streams(3)
    fresh.load_state(streams.state())
    np.testing.assert_array_equal(fresh["explore"].random(8), streams["explore"].random(8))
