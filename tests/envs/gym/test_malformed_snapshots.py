"""Saved states of Gymnasium environments that anybody may have written are refused, not trusted."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from briskrl.core.errors import InvalidStateError
from briskrl.envs.gym.snapshot import EnvState, pack_states, unpack_states

PHILOX = np.random.Philox(1).state
MT19937 = np.random.MT19937(1).state


def array(values: Any) -> dict[str, Any]:
    import base64

    raw = np.asarray(values)
    data = base64.b64encode(raw.tobytes()).decode()
    return {"array": raw.dtype.str, "shape": list(raw.shape), "data": data}


def state_with(value: Any, name: str = "x", **changes: Any) -> str:
    layer = {"state": None, "attributes": {name: value}, "spaces": {}}
    saved = {"env": [layer], "seed": 1, "steps": 3, "return": 0.5, "held": False, **changes}
    return json.dumps(saved)


def generator(bits: str, at: dict[str, Any]) -> dict[str, Any]:
    return {"random": "Generator", "bits": bits, "at": {"dict": [[k, v] for k, v in at.items()]}}


def mt19937(pos: Any) -> dict[str, Any]:
    inner = {"dict": [["key", array(MT19937["state"]["key"])], ["pos", pos]]}
    return generator("MT19937", {"bit_generator": "MT19937", "state": inner})


def philox(pos: Any) -> dict[str, Any]:
    parts = {name: array(PHILOX["state"][name]) for name in ("counter", "key")}
    inner = {"dict": [[k, v] for k, v in parts.items()]}
    at = {"bit_generator": "Philox", "state": inner, "buffer": array(PHILOX["buffer"])}
    return generator("Philox", {**at, "buffer_pos": pos, "has_uint32": 0, "uinteger": 0})


GOOD = [1, "text", array([1.0, 2.0]), mt19937(624), philox(4), {"list": [1]}, {"set": [1]}]
BAD: dict[str, str] = {
    "not JSON": "{",
    "a list": "[]",
    "deep": "[" * 100_000,
    "an unknown kind": state_with({"thing": [1]}),
    "nothing": state_with({}),
    "two kinds": state_with({"list": [1], "tuple": [2]}),
    "a function of NumPy": state_with(generator("seed", {})),
    "a position behind the buffer": state_with(mt19937(1_000_000)),
    "a position before the buffer": state_with(mt19937(-1)),
    "a position behind Philox": state_with(philox(1_000_000)),
    "a position before Philox": state_with(philox(-1)),
    "another generator": state_with({**philox(1), "random": "Popen"}),
    "an array of objects": state_with({"array": "|O", "shape": [1], "data": "AAAAAAAAAAA="}),
    "a dtype that is a program": state_with({"array": "(1,f8", "shape": [1], "data": ""}),
    "an array of terabytes": state_with({"array": "<f8", "shape": [1 << 40], "data": ""}),
    "a reference to nothing": state_with({"same": 9}),
    "another environment": state_with(1, name="env"),
    "negative steps": state_with(1, steps=-1),
    "steps beyond int32": state_with(1, steps=2**31),
    "steps as a text": state_with(1, steps="3"),
    "an infinite return": state_with(1, **{"return": float("inf")}),
    "held as a number": state_with(1, held=1),
    "a space that is a text": json.dumps(
        {
            "env": [{"state": None, "attributes": {}, "spaces": {"action_space": "x"}}],
            "seed": 1,
            "steps": 1,
            "return": 0.0,
            "held": False,
        }
    ),
}


@pytest.mark.parametrize("value", GOOD, ids=[json.dumps(value)[:30] for value in GOOD])
def test_states_of_this_form_are_accepted(value: Any):
    assert EnvState.from_text(state_with(value)).steps == 3


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_a_malformed_state_is_refused(text: str):
    with pytest.raises(InvalidStateError):
        EnvState.from_text(text)


@pytest.mark.parametrize(
    "packed",
    [
        np.zeros(3, np.int64),
        np.zeros((2, 2), np.uint8),
        np.frombuffer(b"[1]", np.uint8),
        np.frombuffer(b'"ab"', np.uint8),
        np.frombuffer(b"[" * 100_000, np.uint8),
        pack_states(["{}", "{}"]),
    ],
    ids=["int64", "matrix", "numbers", "a text", "deep", "two of one"],
)
def test_malformed_texts_of_all_environments_are_refused(packed: np.ndarray):
    with pytest.raises(InvalidStateError):
        unpack_states({"envs": packed}, 1)
    with pytest.raises(InvalidStateError):
        unpack_states({}, 1)
