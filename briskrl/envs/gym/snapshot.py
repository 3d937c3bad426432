"""Exact copies of the state of other people's environments, as JSON and without pickles.

An environment that has `get_state()` and `set_state(state)`, the state being made of what is listed
here, is taken at its word. Of any other one, and of every wrapper around it, the attributes are
taken: numbers, text, NumPy arrays and scalars, random generators, and lists, tuples, dicts, sets
and deques of these. One attribute that is none of these, and no plain code or space, means that the
state cannot be copied. Whether a copy is exact is then decided by trying it.
"""

from __future__ import annotations

import base64
import json
import random
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec as Registration

from briskrl.core.types import JSON

PLAIN = (type(None), bool, int, float, str)
CODE = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
BOXES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
IGNORED = ("env", "spec", "_spec", "metadata", "_metadata", "_cached_spec")
"""Attributes that never change after an environment is made, or are walked on their own."""


class UnknownStateError(Exception):
    """Something in an environment that cannot be copied as data."""


def take(env: gymnasium.Env[Any, Any]) -> JSON | None:
    """The state of an environment and its wrappers; None if it cannot be copied."""
    writer = _Writer()
    try:
        return [_take_layer(layer, writer) for layer in layers(env)]
    except UnknownStateError:
        return None


def restore(env: gymnasium.Env[Any, Any], state: JSON) -> None:
    """Put back what `take` gave, into an environment made by the same recipe and once reset."""
    reader = _Reader()
    for layer, record in zip(layers(env), state, strict=True):
        # In the order of writing, so that objects met twice are found again.
        told = reader.read(record["state"])
        held = {name: reader.read(value) for name, value in record["attributes"].items()}
        spaces = {name: reader.read(value) for name, value in record["spaces"].items()}
        if record["state"] is not None:
            layer.set_state(told)  # type: ignore[attr-defined]
        else:
            _forget(layer, held)
        vars(layer).update(held)
        for name, generator in spaces.items():
            vars(layer)[name]._np_random = generator


def layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """The environment, each environment it wraps, down to the innermost."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def next_seed(seed: int, limit: int) -> int:
    """The seed after this one, below `limit`, for an environment that has to begin anew."""
    return ((seed * 6364136223846793005 + 1442695040888963407) % 2**64 >> 20) % limit


def _take_layer(layer: gymnasium.Env[Any, Any], writer: _Writer) -> dict[str, JSON]:
    held = dict(sorted(vars(layer).items()))
    told = None
    if not isinstance(layer, gymnasium.Wrapper) and _speaks(layer):
        told = writer.write(layer.get_state())  # type: ignore[attr-defined]
        held = {"_np_random": held["_np_random"]} if "_np_random" in held else {}
    spaces = {name: value for name, value in held.items() if isinstance(value, gymnasium.Space)}
    return {
        "state": told,
        "attributes": {
            name: writer.write(value) for name, value in held.items() if _is_state(name, value)
        },
        "spaces": {name: writer.write(_space_generator(space)) for name, space in spaces.items()},
    }


def _forget(layer: gymnasium.Env[Any, Any], kept: dict[str, Any]) -> None:
    """Delete what the environment has come to hold and the copied one did not."""
    for name, value in list(vars(layer).items()):
        if name not in kept and _is_state(name, value):
            delattr(layer, name)


def _speaks(layer: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment can tell its own state."""
    return callable(getattr(layer, "get_state", None)) and callable(
        getattr(layer, "set_state", None)
    )


def _is_state(name: str, value: Any) -> bool:
    """Whether an attribute may change as episodes go on."""
    return name not in IGNORED and not isinstance(
        value, (*CODE, gymnasium.Space, gymnasium.Env, Registration)
    )


def _space_generator(space: gymnasium.Space[Any]) -> np.random.Generator | None:
    """The generator an environment drew samples from, if it did."""
    parts = getattr(space, "spaces", None)
    inner = list(parts.values() if isinstance(parts, dict) else parts or ())
    if any(_space_generator(part) is not None for part in inner):
        raise UnknownStateError("samples were drawn from a space of several parts")
    return space._np_random


class _Writer:
    """Values as JSON; an object met twice is written once, so that it is shared again later."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._alive: list[Any] = []

    def write(self, value: Any) -> JSON:
        if type(value) in PLAIN:
            return value
        if id(value) in self._known:
            return {"same": self._known[id(value)]}
        written = self._object(value)
        self._known[id(value)] = len(self._alive)
        # Kept, because a freed object's address is given to the next one.
        self._alive.append(value)
        return written

    def _object(self, value: Any) -> JSON:
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, np.random.Generator | np.random.RandomState):
            bits = value._bit_generator if hasattr(value, "_bit_generator") else value.bit_generator
            kind = type(bits).__name__
            return {"random": type(value).__name__, "bits": kind, "at": self.write(bits.state)}
        if type(value) is random.Random:
            return {"random": "Random", "bits": "", "at": self.write(value.getstate())}
        if type(value) is dict:
            return {"dict": [[self.write(key), self.write(part)] for key, part in value.items()]}
        if type(value) is deque:
            return {"deque": [self.write(part) for part in value], "maxlen": value.maxlen}
        if type(value) is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        for name, box in BOXES.items():
            if type(value) is box:
                return {name: [self.write(part) for part in value]}
        raise UnknownStateError(f"{type(value).__name__} cannot be written as data")

    def _array(self, value: Any) -> JSON:
        if type(value) is not np.ndarray and not isinstance(value, np.generic):
            raise UnknownStateError(f"{type(value).__name__} is no plain array")
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject or array.dtype.fields:
            raise UnknownStateError("an array of objects cannot be written as data")
        return {
            "array" if isinstance(value, np.ndarray) else "scalar": array.dtype.str,
            "shape": list(value.shape),
            "data": base64.b64encode(array.tobytes()).decode(),
        }


class _Reader:
    """JSON as values, numbering objects in the order in which they were written."""

    def __init__(self) -> None:
        self._known: list[Any] = []

    def read(self, value: JSON) -> Any:
        if not isinstance(value, dict):
            return value
        if "same" in value:
            return self._known[value["same"]]
        made = self._object(value)
        self._known.append(made)
        return made

    def _object(self, value: dict[str, JSON]) -> Any:
        if "array" in value or "scalar" in value:
            dtype = np.dtype(value.get("array", value.get("scalar")))
            array = np.frombuffer(base64.b64decode(value["data"]), dtype).reshape(value["shape"])
            return array.copy() if "array" in value else array[()]
        if "random" in value:
            return self._random(value)
        if "dict" in value:
            return {self.read(key): self.read(part) for key, part in value["dict"]}
        if "deque" in value:
            return deque([self.read(part) for part in value["deque"]], value["maxlen"])
        if "bytes" in value:
            return base64.b64decode(value["bytes"])
        kind = next(kind for name, kind in BOXES.items() if name in value)
        (parts,) = value.values()
        return kind([self.read(part) for part in parts])

    def _random(self, value: dict[str, JSON]) -> Any:
        state = self.read(value["at"])
        if value["random"] == "Random":
            plain = random.Random()
            plain.setstate(state)
            return plain
        bits = getattr(np.random, value["bits"])()
        bits.state = state
        kind = np.random.Generator
        if value["random"] == "RandomState":
            return np.random.RandomState(bits)
        # Gymnasium's own name for NumPy's generator.
        assert value["random"] in ("Generator", "RandomNumberGenerator")
        return kind(bits)


def as_text(state: JSON) -> str:
    """A state as JSON text; floats keep every bit, infinities and NaN included."""
    return json.dumps(state, separators=(",", ":"))
