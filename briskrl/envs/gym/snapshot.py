"""Save and restore the state of any Gymnasium environment, as JSON without pickles.

For an environment with `get_state()` and `set_state(state)`, these are used. For any other, and for
every wrapper around it, the attributes are saved: numbers, text, NumPy arrays and scalars, random
generators, and lists, tuples, dicts, sets and deques of these. Code and spaces are skipped. If any
other attribute remains, the state cannot be saved. `state_check` tests whether restoring is exact.
"""

from __future__ import annotations

import base64
import json
import math
import random
import re
import types
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec as Registration

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import invalid_state, loaded, loaded_finite, real, short, whole
from briskrl.core.types import JSON, Array, StepBuffers

PLAIN = (type(None), bool, int, float, str)
CODE = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
BOXES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
BIT_GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (
        np.random.MT19937,
        np.random.PCG64,
        np.random.PCG64DXSM,
        np.random.Philox,
        np.random.SFC64,
    )
}
DTYPE = re.compile(r"[<>|=][a-zA-Z]\d*(\[\w+\])?")
IGNORED = ("env", "spec", "_spec", "metadata", "_metadata", "_cached_spec")
"""Attributes that never change after construction, or are visited separately."""


class UnknownStateError(Exception):
    """An attribute of an environment that cannot be saved as data."""


@dataclass(frozen=True, slots=True)
class EnvState:
    """The saved state of one environment between two steps, the same from every backend."""

    env: JSON | None
    """What `take` returned; None if the state cannot be saved."""
    seed: int
    """The seed it was last reset with."""
    steps: int
    """Steps of the current episode so far."""
    returns: float
    """Sum of the rewards of the current episode so far."""
    held: bool
    """Whether the episode has ended and no new one has begun."""

    def to_text(self) -> str:
        """The state as JSON; floats keep every bit."""
        return to_text(
            {
                "env": self.env,
                "seed": self.seed,
                "steps": self.steps,
                "return": self.returns,
                "held": self.held,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> EnvState:
        """The state that `to_text` wrote.

        Raises:
            InvalidStateError: It is not such a state, or holds impossible numbers.
        """
        with invalid_state("the state of an environment"):
            data, reader = json.loads(text), _Reader()
            layers = data["env"]
            for record in layers or ():
                _read_layer(record, reader)
            steps = whole(data, "steps", np.iinfo(np.int32).max - 1)
            returns = real(data, "return", -math.inf)
            if type(data["held"]) is not bool:
                raise InvalidStateError(f"held is {short(data['held'])} instead of true or false")
            return cls(layers, whole(data, "seed", 2**128), steps, returns, data["held"])


def pack_states(states: Sequence[str]) -> Array:
    """The states of all envs, as texts, in one array of bytes."""
    return np.frombuffer(json.dumps(list(states)).encode(), np.uint8).copy()


def unpack_states(state: Mapping[str, Array], count: int) -> list[str]:
    """The texts of `count` envs that `pack_states` packed into the array envs.

    Raises:
        InvalidStateError: There are other texts.
    """
    packed = state.get("envs")
    if packed is None or packed.dtype != np.uint8 or packed.ndim != 1:
        raise InvalidStateError("the array envs is missing, or not one of bytes")
    with invalid_state("the array envs"):
        states: list[str] = json.loads(packed.tobytes())
    if type(states) is not list or any(type(text) is not str for text in states):
        raise InvalidStateError("the array envs is not a list of texts")
    if len(states) != count:
        raise InvalidStateError(f"the array envs holds {len(states)} states instead of {count}")
    return states


def load_saved(state: Mapping[str, Array], buffers: StepBuffers) -> list[str]:
    """Copy saved observations and masks into the buffers; returns the texts of all envs.

    Raises:
        InvalidStateError: It is a state of other environments.
    """
    texts = unpack_states(state, len(buffers.reward))
    obs = loaded_finite(state, "obs", buffers.obs)
    if buffers.mask is not None:
        np.copyto(buffers.mask, loaded(state, "mask", buffers.mask))
    np.copyto(buffers.obs, obs)
    return texts


def take(env: gymnasium.Env[Any, Any]) -> JSON | None:
    """The state of an environment and its wrappers; None if it cannot be saved."""
    writer = _Writer()
    try:
        return [_take_layer(layer, writer) for layer in layers(env)]
    except UnknownStateError:
        return None


def restore(env: gymnasium.Env[Any, Any], state: JSON) -> None:
    """Restore what `take` returned, in an environment of the same factory that has been reset."""
    reader = _Reader()
    for layer, record in zip(layers(env), state, strict=True):
        own_state, held, spaces = _read_layer(record, reader)
        if record["state"] is not None:
            layer.set_state(own_state)  # type: ignore[attr-defined]
        else:
            _delete_others(layer, held)
        vars(layer).update(held)
        for name, generator in spaces.items():
            vars(layer)[name]._np_random = generator


def layers(env: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """The environment and every environment inside it, from the outermost to the innermost."""
    while True:
        yield env
        if not isinstance(env, gymnasium.Wrapper):
            return
        env = env.env


def next_seed(seed: int, limit: int) -> int:
    """A seed below `limit` derived from the last one, for an environment that has to restart."""
    return ((seed * 6364136223846793005 + 1442695040888963407) % 2**64 >> 20) % limit


def _take_layer(layer: gymnasium.Env[Any, Any], writer: _Writer) -> dict[str, JSON]:
    held = dict(sorted(vars(layer).items()))
    own_state = None
    if not isinstance(layer, gymnasium.Wrapper) and _saves_itself(layer):
        own_state = writer.write(layer.get_state())  # type: ignore[attr-defined]
        held = {"_np_random": held["_np_random"]} if "_np_random" in held else {}
    spaces = {name: value for name, value in held.items() if isinstance(value, gymnasium.Space)}
    return {
        "state": own_state,
        "attributes": {
            name: writer.write(value) for name, value in held.items() if _is_state(name, value)
        },
        "spaces": {name: writer.write(_space_generator(space)) for name, space in spaces.items()},
    }


def _read_layer(
    record: dict[str, JSON], reader: _Reader
) -> tuple[Any, dict[str, Any], dict[str, np.random.Generator | None]]:
    """The own state, attributes and generators of spaces that `_take_layer` wrote."""
    # In the order of writing, so that shared objects resolve to the same object again.
    own_state = reader.read(record["state"])
    held = {name: reader.read(value) for name, value in record["attributes"].items()}
    spaces = {name: reader.read(value) for name, value in record["spaces"].items()}
    wrong = [name for name in held if name in IGNORED]
    if wrong:
        raise InvalidStateError(f"{short(wrong[0])} is not part of a state")
    if any(not isinstance(found, np.random.Generator | None) for found in spaces.values()):
        raise InvalidStateError("a space holds something else than random numbers")
    return own_state, held, spaces


def _delete_others(layer: gymnasium.Env[Any, Any], kept: dict[str, Any]) -> None:
    """Delete state attributes that the saved environment did not have."""
    for name, value in list(vars(layer).items()):
        if name not in kept and _is_state(name, value):
            delattr(layer, name)


def _saves_itself(layer: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment has `get_state` and `set_state`."""
    return callable(getattr(layer, "get_state", None)) and callable(
        getattr(layer, "set_state", None)
    )


def _is_state(name: str, value: Any) -> bool:
    """Whether an attribute may change during episodes."""
    return name not in IGNORED and not isinstance(
        value, (*CODE, gymnasium.Space, gymnasium.Env, Registration)
    )


def _space_generator(space: gymnasium.Space[Any]) -> np.random.Generator | None:
    """The random generator of a space, if samples were drawn from it."""
    parts = getattr(space, "spaces", None)
    inner = list(parts.values() if isinstance(parts, dict) else parts or ())
    if any(_space_generator(part) is not None for part in inner):
        raise UnknownStateError("samples were drawn from a space of several parts")
    return space._np_random


class _Writer:
    """Writes values as JSON; a shared object is written once and then by reference."""

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
        # Kept alive, so that no other object gets the same id.
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
            raise UnknownStateError(f"{type(value).__name__} is not a plain array")
        array = np.ascontiguousarray(value)
        if array.dtype.hasobject or array.dtype.fields:
            raise UnknownStateError("an array of objects cannot be written as data")
        return {
            "array" if isinstance(value, np.ndarray) else "scalar": array.dtype.str,
            "shape": list(value.shape),
            "data": base64.b64encode(array.tobytes()).decode(),
        }


def _dtype_name(name: JSON) -> str:
    """The name of a dtype as arrays give it; NumPy would parse others as a small language."""
    if not isinstance(name, str) or not DTYPE.fullmatch(name):
        raise InvalidStateError(f"{short(name)} is not the dtype of an array")
    return name


class _Reader:
    """Reads values from JSON, numbering objects in the order in which they were written."""

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
            dtype = np.dtype(_dtype_name(value.get("array", value.get("scalar"))))
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
        ((name, parts),) = value.items()
        return BOXES[name]([self.read(part) for part in parts])

    def _random(self, value: dict[str, JSON]) -> Any:
        state = self.read(value["at"])
        if value["random"] == "Random":
            plain = random.Random()
            plain.setstate(state)
            return plain
        bits = BIT_GENERATORS[value["bits"]]()
        # NumPy takes any position in the buffer of a generator, and would read beyond it.
        if value["bits"] == "MT19937":
            whole(state["state"], "pos", 624)
        elif value["bits"] == "Philox":
            whole(state, "buffer_pos", 4)
        bits.state = state
        kind = np.random.Generator
        if value["random"] == "RandomState":
            return np.random.RandomState(bits)
        # Gymnasium's subclass of NumPy's generator.
        if value["random"] not in ("Generator", "RandomNumberGenerator"):
            raise InvalidStateError(f"{short(value['random'])} is not a random generator")
        return kind(bits)


def to_text(state: JSON) -> str:
    """A state as JSON text; floats keep every bit, infinities and NaN included."""
    return json.dumps(state, separators=(",", ":"))
