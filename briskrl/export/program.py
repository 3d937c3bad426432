"""The computation of a policy network as a list of operations on named arrays.

`lowering.py` makes programs from torch networks; `onnx_file.py` turns them into ONNX, and
`numpy_engine.py` computes them. A program is plain data, so a bundle stores it as JSON: reading one
runs no code from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from briskrl.core.errors import InvalidStateError

OBS = "obs"
"""Name of the input of every program, (N, *obs) float32."""

OPERATIONS: dict[str, tuple[int, tuple[str, ...], tuple[str, ...]]] = {
    "multiply": (1, (), ("factor",)),
    "standardize": (1, ("mean", "scale"), ("limit",)),
    "normalize": (1, ("weight", "bias"), ("eps",)),
    "flatten": (1, (), ()),
    "linear": (1, ("weight", "bias"), ()),
    "conv": (1, ("weight", "bias"), ("padding", "dilation")),
    "relu": (1, (), ()),
    "tanh": (1, (), ()),
    "add": (2, (), ()),
    "subtract": (2, (), ()),
    "mean": (1, (), ("axes", "keepdims")),
    "cells": (1, (), ()),
    "reshape": (1, (), ("shape",)),
    "squeeze": (1, (), ("axis",)),
    "expectation": (1, ("support",), ()),
    "append": (1, ("values",), ()),
}
"""Operations: number of inputs, names of their weights, names of their attributes.

multiply     input * factor
standardize  (input - mean) * scale, clipped to +-limit
normalize    all axes but the first to mean 0 and variance 1, then * weight + bias
flatten      (N, ...) -> (N, size)
linear       input @ weight.T + bias, over the last axis
conv         2D convolution of (N, C, H, W) with stride 1
mean         mean over axes
cells        (N, C, H, W) -> (N, H * W, C)
reshape      to (N, *shape)
squeeze      removes an axis of length 1
expectation  softmax over the last axis, then the mean of the support: (N, A, Z) -> (N, A)
append       (N, D) -> (N, D + len(values)): the same values after every row
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """One step of a program."""

    name: str
    inputs: tuple[str, ...]
    output: str
    weights: dict[str, str] = field(default_factory=dict)
    """Names of arrays by their role, such as weight and bias."""
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """Operations in order; the output of the last is that of the program."""

    operations: tuple[Operation, ...]

    @property
    def output(self) -> str:
        """Name of the result."""
        return self.operations[-1].output if self.operations else OBS

    @property
    def weights(self) -> set[str]:
        """Names of all arrays that the program needs."""
        return {name for operation in self.operations for name in operation.weights.values()}

    def as_json(self) -> list[dict[str, Any]]:
        """The program as plain data."""
        return [asdict(operation) for operation in self.operations]


def program_of(data: Any) -> Program:
    """The program of what `Program.as_json` returned.

    Raises:
        InvalidStateError: The data describe no program.
    """
    if not isinstance(data, list):
        raise InvalidStateError("the program is not a list of operations")
    known, operations = {OBS}, []
    for number, entry in enumerate(data):
        try:
            operations.append(_operation(entry, known))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidStateError(f"operation {number} of the program: {error}") from error
        known.add(operations[-1].output)
    return Program(tuple(operations))


def _operation(entry: Mapping[str, Any], known: set[str]) -> Operation:
    name, inputs = entry["name"], tuple(entry["inputs"])
    if name not in OPERATIONS:
        raise ValueError(f"{name!r} is unknown; a newer version of briskrl may have written it")
    count, weights, attributes = OPERATIONS[name]
    if len(inputs) != count or not known.issuperset(inputs):
        raise ValueError(f"{name} has the inputs {list(inputs)}")
    found = dict(entry["weights"]), dict(entry["attributes"])
    if set(found[0]) != set(weights) or set(found[1]) != set(attributes):
        raise ValueError(f"{name} needs {[*weights, *attributes]}")
    return Operation(name, inputs, str(entry["output"]), *found)
