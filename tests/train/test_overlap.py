"""Updates are prepared beside those under way, and come out as if they had not been."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from briskrl.train.resolve import complete
from briskrl.train.session import Session
from tests.train.runs import small_config

ITERATIONS = 120


def parameters(session):
    return {name: array.copy() for name, array in session.algo.state()["model"].arrays.items()}


def trained(tmp_path, preset, after_each, target_every=7, **options):
    """Parameters after some iterations, with something done after each of them."""
    algo = {"target_every": target_every}
    config = small_config(tmp_path, preset, overlap=True, algo_config=algo, **options)
    with closing(Session(complete(config))) as session:
        session.start()
        for _ in range(ITERATIONS):
            session.iterate()
            after_each(session)
        assert session.clock.updates > 100
        return parameters(session)


def forget(session):
    session.overlap.forget()


def stay_alone(session):
    session.overlap._retreat._left = 2


@pytest.mark.parametrize("preset", ["dqn", "double-dqn", "per-dqn", "rainbow"])
@pytest.mark.parametrize("after_each", [forget, stay_alone])
def test_what_is_prepared_makes_no_difference_to_the_bits(tmp_path, preset, after_each):
    plain = trained(tmp_path, preset, lambda session: None)
    other = trained(tmp_path, preset, after_each)
    assert plain.keys() == other.keys()
    for name, array in plain.items():
        assert np.array_equal(array, other[name]), name


def test_batches_are_drawn_and_the_target_asked_before_their_updates_begin(tmp_path):
    seen = []

    def look(session):
        engine = session.algo.engines.now
        rules = [duty.lesson.rules.tolist() for duty in engine._duties.values()]
        seen.append(max((rule[-1] for rule in rules), default=0))
        # Whoever has retreated from a busy core prepares nothing.
        session.overlap._retreat._left = 0

    trained(tmp_path, "dqn", look, target_every=50, num_envs=64)
    # Some are not: updates under way may be about to refresh the target.
    assert max(seen) > 1
    assert np.count_nonzero(seen) > len(seen) / 2
