"""Messages arrive whole and in order, however the bytes are divided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from briskrl.cluster.messages import Inbox, Reply, Reported, as_json, pack


@given(st.lists(st.integers(0, 5000), max_size=8), st.lists(st.integers(1, 3000), max_size=30))
def test_messages_arrive_whole_and_in_order(sizes, cuts):
    sent = [Reply(n, Reported({"text": "x" * size})) for n, size in enumerate(sizes)]
    data = b"".join(map(pack, sent))
    inbox, received = Inbox(), []
    for cut in [*cuts, len(data)]:
        received += inbox.feed(data[:cut])
        data = data[cut:]
    assert received == sent


def test_values_of_numpy_become_python_numbers_and_what_json_lacks_becomes_none():
    found = as_json({"a": np.float32(0.5), "b": (np.int64(3), float("nan")), "c": np.bool_(True)})
    assert found == {"a": 0.5, "b": [3, None], "c": True}
    assert [type(value) for value in (found["a"], found["c"])] == [float, bool]


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, np.zeros(2)])
def test_values_that_json_does_not_have_are_refused(value):
    with pytest.raises(TypeError):
        as_json({"value": value})
