"""Averages of training returns, and the workflows in focus."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.errors import InvalidStateError
from briskrl.orders.order_arrays import order_ranks
from briskrl.orders.space import WorkflowSpace
from briskrl.workflows.run.return_average import ReturnAverage

SPACE = WorkflowSpace(("a", "b", "c", "d"))


def scores(orders: np.ndarray) -> np.ndarray:
    """Orders with `d` early score high."""
    return -10.0 * order_ranks(orders)[:, 3]


def filled(episodes: int) -> ReturnAverage:
    average = ReturnAverage()
    ids = np.repeat(np.arange(0, 24, 2), episodes)
    average.add(ids, np.repeat(scores(SPACE.orders)[::2], episodes))
    return average


def test_an_average_moves_by_a_tenth():
    average = ReturnAverage()
    average.add(np.array([3, 3]), np.array([10.0, 20.0]))
    assert average.state().tolist() == [[3.0, 11.0, 2.0]]


def test_the_best_tenth_is_in_focus_also_if_it_was_never_drawn():
    focus = filled(5).focus(SPACE, np.random.default_rng(0))
    # A tenth of 24, rounded up.
    assert len(focus) == 3
    assert all(SPACE.from_id(number).names[0] == "d" for number in focus)


def test_few_episodes_of_a_workflow_do_not_count():
    assert filled(4).focus(SPACE, np.random.default_rng(0)) == []


def test_the_state_is_restored():
    before = filled(6)
    after = ReturnAverage()
    after.load_state(before.state(), 24)
    assert np.array_equal(after.state(), before.state())
    rng = np.random.default_rng
    assert after.focus(SPACE, rng(0)) == before.focus(SPACE, rng(0))


@pytest.mark.parametrize(
    "rows", [np.zeros((1, 2)), np.array([[24.0, 0, 1]]), np.array([[0, np.nan, 1]]), np.zeros(3)]
)
def test_an_impossible_state_is_refused(rows):
    with pytest.raises(InvalidStateError):
        ReturnAverage().load_state(rows, 24)
