"""Compute programs with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import InvalidStateError
from briskrl.core.types import Floats
from briskrl.export.program import OBS, Operation, Program

Weights = Mapping[str, Floats]
Step = Callable[..., Floats]


class NumpyEngine:
    """A program with its weights, ready to be called.

    Args:
        program: What to compute.
        arrays: The weights by name; float32 copies are kept.

    Raises:
        InvalidStateError: A weight is missing.
    """

    def __init__(self, program: Program, arrays: Mapping[str, NDArray[Any]]) -> None:
        if missing := program.weights - set(arrays):
            raise InvalidStateError(f"the weights {', '.join(sorted(missing))} are missing")
        self._output = program.output
        self._steps = [
            (_BUILDERS[op.name](_weights(op, arrays), op.attributes), op.inputs, op.output)
            for op in program.operations
        ]

    def __call__(self, obs: Floats) -> Floats:
        """The result of the program for observations (N, *obs) float32."""
        values = {OBS: obs}
        for compute, inputs, output in self._steps:
            values[output] = compute(*[values[name] for name in inputs])
        return values[self._output]


def _weights(operation: Operation, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Floats]:
    return {
        role: np.ascontiguousarray(arrays[name], np.float32)
        for role, name in operation.weights.items()
    }


def _multiply(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    factor = np.float32(attributes["factor"])
    return lambda x: x * factor


def _standardize(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    mean, scale, limit = weights["mean"], weights["scale"], float(attributes["limit"])
    return lambda x: ((x - mean) * scale).clip(-limit, limit)


def _normalize(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    weight, bias, eps = weights["weight"], weights["bias"], np.float32(attributes["eps"])

    def compute(x: Floats) -> Floats:
        axes = tuple(range(1, x.ndim))
        centered = x - x.mean(axis=axes, keepdims=True)
        variance = (centered * centered).mean(axis=axes, keepdims=True)
        normal: Floats = centered / np.sqrt(variance + eps)
        return normal * weight + bias

    return compute


def _linear(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    # The transposed matrix is copied, so that one observation is one pass through memory.
    matrix, bias = np.ascontiguousarray(weights["weight"].T), weights["bias"]

    def compute(x: Floats) -> Floats:
        product: Floats = x @ matrix
        product += bias
        return product

    return compute


def _conv(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    weight, bias = weights["weight"], weights["bias"][:, None]
    pad, gap, size = attributes["padding"], attributes["dilation"], weight.shape[2]
    outputs = len(weight)
    # Rows of patches are ordered by place in the filter, then by channel.
    matrix = np.ascontiguousarray(weight.transpose(0, 2, 3, 1).reshape(outputs, -1))

    def compute(x: Floats) -> Floats:
        count, _, height, width = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))) if pad else x
        patches = [
            padded[:, :, i * gap : i * gap + height, j * gap : j * gap + width]
            for i in range(size)
            for j in range(size)
        ]
        flat = np.concatenate(patches, axis=1).reshape(count, -1, height * width)
        return (matrix @ flat + bias).reshape(count, outputs, height, width)

    return compute


def _mean(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    axes, keepdims = tuple(attributes["axes"]), bool(attributes["keepdims"])
    return lambda x: x.mean(axis=axes, keepdims=keepdims)


def _reshape(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    shape = tuple(attributes["shape"])
    return lambda x: x.reshape(len(x), *shape)


def _squeeze(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    axis = int(attributes["axis"])
    return lambda x: x.squeeze(axis)


def _expectation(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    support = weights["support"]
    return lambda x: softmax(x) @ support


def _append(weights: Weights, attributes: Mapping[str, Any]) -> Step:
    values = weights["values"]
    return lambda x: np.concatenate([x, np.broadcast_to(values, (len(x), len(values)))], axis=1)


def softmax(x: Floats) -> Floats:
    """Softmax over the last axis."""
    powers: Floats = np.exp(x - x.max(axis=-1, keepdims=True))
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers


def _plain(function: Step) -> Callable[[Weights, Mapping[str, Any]], Step]:
    return lambda weights, attributes: function


_BUILDERS: dict[str, Callable[[Weights, Mapping[str, Any]], Step]] = {
    "multiply": _multiply,
    "standardize": _standardize,
    "normalize": _normalize,
    "flatten": _plain(lambda x: x.reshape(len(x), -1)),
    "linear": _linear,
    "conv": _conv,
    "relu": _plain(lambda x: np.maximum(x, np.float32(0))),
    "tanh": _plain(np.tanh),
    "add": _plain(np.add),
    "subtract": _plain(np.subtract),
    "mean": _mean,
    "cells": _plain(lambda x: x.reshape(*x.shape[:2], -1).transpose(0, 2, 1)),
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expectation": _expectation,
    "append": _append,
}
