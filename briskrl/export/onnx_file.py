"""Policies as ONNX models: observation scaling, network and action selection in one file.

The graph is written with the helpers of the `onnx` package, one or a few nodes per operation of the
program. Inputs are `obs` (N, *obs) in the environment's own number type and, where the environment
has masks, `mask` (N, A) bool; outputs are those of `ActionSelector.outputs`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ActionSpec, ArraySpec, BoxSpec, DiscreteSpec, SubsetSpec
from briskrl.export.lowering import Lowered
from briskrl.export.program import OBS, Operation
from briskrl.export.selection import ILLEGAL, NO_ACTION, Kind, groups_of, num_choices
from briskrl.training.storage.atomic_files import replace

OPSET = 17
"""Version of the operators, which every ONNX runtime since 2022 supports."""
IR_VERSION = 8
_MISSING = (
    "ONNX files need the packages onnx and onnxruntime. Install them with: "
    "pip install 'briskrl[export]'"
)


def check_installed() -> None:
    """Check that ONNX files can be written and verified.

    Raises:
        ConfigError: A package is missing.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise ConfigError(f"{_MISSING} ({error}).") from error


def write_onnx(
    path: Path,
    lowered: Lowered,
    obs: ArraySpec,
    action: ActionSpec,
    kind: Kind,
    *,
    has_mask: bool,
    notes: dict[str, str],
) -> None:
    """Write the model of a policy.

    Args:
        path: The file, replaced as a whole.
        lowered: The network.
        obs: The observations.
        action: The actions.
        kind: What the network gives.
        has_mask: Add the input `mask`.
        notes: Metadata of the model.
    """
    import onnx

    graph = _Graph(lowered)
    graph.add("Cast", [OBS], "x", to=onnx.TensorProto.FLOAT)
    for operation in lowered.program.operations:
        graph.operation(operation)
    _Selection(graph, action, kind, has_mask=has_mask).add(graph.name(lowered.program.output))
    model = graph.model(_inputs(obs, action, has_mask), _outputs(action, kind))
    for key, value in notes.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.checker.check_model(model, full_check=True)
    replace(path, model.SerializeToString())


def _inputs(obs: ArraySpec, action: ActionSpec, has_mask: bool) -> list[Any]:
    from onnx import TensorProto, helper

    dtype = helper.np_dtype_to_tensor_dtype(obs.dtype)
    inputs = [helper.make_tensor_value_info(OBS, dtype, ["N", *obs.shape])]
    if has_mask:
        width = num_choices(action)
        inputs.append(helper.make_tensor_value_info("mask", TensorProto.BOOL, ["N", width]))
    return inputs


def _outputs(action: ActionSpec, kind: Kind) -> list[Any]:
    from onnx import TensorProto, helper

    def info(name: str, dtype: int, *sizes: int) -> Any:
        return helper.make_tensor_value_info(name, dtype, ["N", *sizes])

    if isinstance(action, BoxSpec):
        return [info(name, TensorProto.FLOAT, *action.shape) for name in _GAUSSIAN]
    columns: tuple[int, ...] = ()
    if not isinstance(action, DiscreteSpec):
        columns = (action.k if isinstance(action, SubsetSpec) else len(action.nvec),)
    names = ("probabilities", "values") if kind == "values" else ("probabilities",)
    width = num_choices(action)
    floats = [info(name, TensorProto.FLOAT, width) for name in names]
    return [info("action", TensorProto.INT64, *columns), *floats]


_GAUSSIAN = ("action", "mean", "log_std")


class _Graph:
    """Collects nodes and constants."""

    def __init__(self, lowered: Lowered) -> None:
        self._arrays = lowered.arrays
        self._nodes: list[Any] = []
        self._constants: dict[str, Any] = {}

    def model(self, inputs: list[Any], outputs: list[Any]) -> Any:
        """The finished model."""
        from onnx import helper

        from briskrl import __version__

        constants = list(self._constants.values())
        graph = helper.make_graph(self._nodes, "policy", inputs, outputs, constants)
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET)],
            producer_name="briskrl",
            producer_version=__version__,
        )
        model.ir_version = IR_VERSION
        return model

    @staticmethod
    def name(value: str) -> str:
        """The name of a program's value, whose input has been cast to float."""
        return "x" if value == OBS else value

    def add(self, kind: str, inputs: list[str], output: str = "", **attributes: Any) -> str:
        """Add a node with one output; returns its name."""
        from onnx import helper

        output = output or f"n{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        """A constant array; returns its name."""
        from onnx import numpy_helper

        self._constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def number(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant(f"number {value}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        """An int64 vector."""
        return self.constant(f"integers {values}", np.array(values, np.int64))

    def operation(self, operation: Operation) -> None:
        """Add the nodes of an operation of a program."""
        inputs = [self.name(value) for value in operation.inputs]
        weights = {role: self._arrays[name] for role, name in operation.weights.items()}
        _OPERATIONS[operation.name](self, operation, inputs, weights)

    def weight(self, operation: Operation, role: str) -> str:
        """An array of an operation as it is."""
        name = operation.weights[role]
        # Outputs have names like log_std, too.
        return self.constant(f"weights.{name}", self._arrays[name])


_Add = Callable[[_Graph, Operation, list[str], dict[str, NDArray[np.float32]]], object]


def _multiply(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    graph.add("Mul", [*inputs, graph.number(op.attributes["factor"])], op.output)


def _standardize(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    centered = graph.add("Sub", [*inputs, graph.weight(op, "mean")])
    scaled = graph.add("Mul", [centered, graph.weight(op, "scale")])
    limit = op.attributes["limit"]
    graph.add("Clip", [scaled, graph.number(-limit), graph.number(limit)], op.output)


def _normalize(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    axes = list(range(1, weights["weight"].ndim + 1))
    mean = graph.add("ReduceMean", inputs, axes=axes, keepdims=1)
    centered = graph.add("Sub", [*inputs, mean])
    square = graph.add("Mul", [centered, centered])
    variance = graph.add("ReduceMean", [square], axes=axes, keepdims=1)
    above_zero = graph.add("Add", [variance, graph.number(op.attributes["eps"])])
    normal = graph.add("Div", [centered, graph.add("Sqrt", [above_zero])])
    scaled = graph.add("Mul", [normal, graph.weight(op, "weight")])
    graph.add("Add", [scaled, graph.weight(op, "bias")], op.output)


def _linear(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    # MatMul takes inputs with any number of axes, unlike Gemm.
    matrix = graph.constant(f"weights.{op.weights['weight']}.T", weights["weight"].T)
    product = graph.add("MatMul", [*inputs, matrix])
    graph.add("Add", [product, graph.weight(op, "bias")], op.output)


def _conv(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    pad, gap = op.attributes["padding"], op.attributes["dilation"]
    arrays = [graph.weight(op, role) for role in ("weight", "bias")]
    graph.add("Conv", [*inputs, *arrays], op.output, pads=[pad] * 4, dilations=[gap] * 2)


def _mean(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    keep = int(op.attributes["keepdims"])
    graph.add("ReduceMean", inputs, op.output, axes=list(op.attributes["axes"]), keepdims=keep)


def _cells(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    # 0 keeps an axis, -1 is what is left.
    flat = graph.add("Reshape", [*inputs, graph.integers(0, 0, -1)])
    graph.add("Transpose", [flat], op.output, perm=[0, 2, 1])


def _reshape(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    graph.add("Reshape", [*inputs, graph.integers(-1, *op.attributes["shape"])], op.output)


def _squeeze(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    graph.add("Squeeze", [*inputs, graph.integers(op.attributes["axis"])], op.output)


def _expectation(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    probabilities = graph.add("Softmax", inputs, axis=-1)
    graph.add("MatMul", [probabilities, graph.weight(op, "support")], op.output)


def _append(graph: _Graph, op: Operation, inputs: list[str], weights: Any) -> None:
    count = graph.add("Slice", [graph.add("Shape", inputs), graph.integers(0), graph.integers(1)])
    width = graph.integers(len(weights["values"]))
    shape = graph.add("Concat", [count, width], axis=0)
    rows = graph.add("Expand", [graph.weight(op, "values"), shape])
    graph.add("Concat", [*inputs, rows], op.output, axis=1)


def _one(kind: str, **attributes: Any) -> _Add:
    return lambda graph, op, inputs, weights: graph.add(kind, inputs, op.output, **attributes)


_OPERATIONS: dict[str, _Add] = {
    "multiply": _multiply,
    "standardize": _standardize,
    "normalize": _normalize,
    "flatten": _one("Flatten", axis=1),
    "linear": _linear,
    "conv": _conv,
    "relu": _one("Relu"),
    "tanh": _one("Tanh"),
    "add": _one("Add"),
    "subtract": _one("Sub"),
    "mean": _mean,
    "cells": _cells,
    "reshape": _reshape,
    "squeeze": _squeeze,
    "expectation": _expectation,
    "append": _append,
}


class _Selection:
    """The nodes from network outputs to actions; see `selection.py` for the same in NumPy."""

    def __init__(self, graph: _Graph, action: ActionSpec, kind: Kind, *, has_mask: bool) -> None:
        self._graph = graph
        self._action = action
        self._kind = kind
        self._has_mask = has_mask

    def add(self, scores: str) -> None:
        graph = self._graph
        if self._kind == "gaussian":
            self._gaussian(scores)
            return
        groups = groups_of(self._action)
        legal = [self._legal(scores, group) for group in groups]
        if isinstance(self._action, SubsetSpec):
            self._subset(legal[0], self._action)
        elif isinstance(self._action, DiscreteSpec):
            graph.add("ArgMax", legal, "action", axis=1, keepdims=0)
        else:
            best = [graph.add("ArgMax", [part], axis=1, keepdims=1) for part in legal]
            graph.add("Concat", best, "action", axis=1)
        if self._kind == "values":
            self._taken()
            graph.add("Identity", [scores], "values")
        else:
            parts = [graph.add("Softmax", [part], axis=1) for part in legal]
            graph.add("Concat", parts, "probabilities", axis=1)

    def _gaussian(self, scores: str) -> None:
        graph, action = self._graph, self._action
        assert isinstance(action, BoxSpec)
        size = int(np.prod(action.shape))
        for name, begin in (("mean", 0), ("log_std", size)):
            self._columns(scores, slice(begin, begin + size), name)
        graph.add("Clip", ["mean", graph.number(action.low), graph.number(action.high)], "action")

    def _columns(self, values: str, columns: slice, output: str = "") -> str:
        graph = self._graph
        ends = [graph.integers(columns.start), graph.integers(columns.stop), graph.integers(1)]
        return graph.add("Slice", [values, *ends], output)

    def _usable(self, group: slice) -> str:
        """The legal choices of a group, all of them if none is legal."""
        graph = self._graph
        mask = self._columns("mask", group)
        number = graph.add("Cast", [mask], to=1)
        some = graph.add("ReduceMax", [number], axes=[1], keepdims=1)
        none = graph.add("Not", [graph.add("Cast", [some], to=9)])
        return graph.add("Or", [mask, none])

    def _legal(self, scores: str, group: slice) -> str:
        part = self._columns(scores, group)
        if not self._has_mask:
            return part
        illegal = -np.inf if self._kind == "values" else float(ILLEGAL)
        return self._graph.add("Where", [self._usable(group), part, self._graph.number(illegal)])

    def _subset(self, legal: str, action: SubsetSpec) -> None:
        graph = self._graph
        from onnx import helper

        count, missing = min(action.k, action.n), max(0, action.k - action.n)
        chosen = "action" if not (self._has_mask or missing) else "best"
        node = helper.make_node("TopK", [legal, graph.integers(count)], ["best values", chosen])
        graph._nodes.append(node)
        nothing = graph.constant("no action", np.array(NO_ACTION, np.int64))
        if self._has_mask:
            usable = graph.add("Cast", [self._usable(slice(0, action.n))], to=1)
            taken = graph.add("GatherElements", [usable, chosen], axis=1)
            is_legal = graph.add("Cast", [taken], to=9)
            chosen = graph.add("Where", [is_legal, chosen, nothing], "" if missing else "action")
        if missing:
            graph.add("Pad", [chosen, graph.integers(0, 0, 0, missing), nothing], "action")

    def _taken(self) -> None:
        """1 for the actions that are taken, 0 for others."""
        graph = self._graph
        axes = (1, 2) if isinstance(self._action, DiscreteSpec) else (2,)
        columns = graph.add("Unsqueeze", ["action", graph.integers(*axes)])
        every = graph.constant("choices", np.arange(num_choices(self._action), dtype=np.int64))
        equal = graph.add("Cast", [graph.add("Equal", [columns, every])], to=1)
        graph.add("ReduceMax", [equal], "probabilities", axes=[1], keepdims=0)
