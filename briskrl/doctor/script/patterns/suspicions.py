"""Patterns that are probably mistakes: they may cost what is learned rather than time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from briskrl.core.cpu import usable_cores
from briskrl.doctor.script.costs import Costs
from briskrl.doctor.script.source import Source, called_name, dotted
from briskrl.doctor.script.tags import ADDS, name_tag

TRUNCATED, TERMINATED = re.compile(r"trunc"), re.compile(r"term")
ENVS = re.compile(r"num_?envs|n_?envs", re.IGNORECASE)
TARGET = re.compile(r"target", re.IGNORECASE)
ACCELERATOR = re.compile(r"^(cuda|mps|xpu)")


def suspicions(costs: Costs) -> Iterator[str]:
    """Sentences about the script, each with a place."""
    for path in sorted({item.site.code.file for item in costs.seen.stacks.values() if item.site}):
        source = costs.sources.of(path)
        yield from _missed_targets(source, costs.seen.num_envs)
        yield from _time_limits(source)
        yield from _tied_ratio(source)
        yield from _tensors_in_buffer(source, costs)
    threads = costs.seen.state.get("torch_threads")
    if isinstance(threads, int) and threads > usable_cores():
        yield f"torch uses {threads} threads on {usable_cores()} cores; they wait for each other"


def _missed_targets(source: Source, num_envs: int) -> Iterator[str]:
    """`step % 1000 == 0` with steps that grow by a number which does not divide 1000."""
    if num_envs < 2:
        return
    constants = _constants(source)
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Compare) or not _is_zero(node):
            continue
        left = node.left
        if not isinstance(left, ast.BinOp) or not isinstance(left.op, ast.Mod):
            continue
        period = _number(left.right, constants)
        counter = dotted(left.left)
        if period is None or period % num_envs == 0 or not _grows_by_envs(source, counter):
            continue
        if _is_about_target(source, node):
            yield (
                f"{_at(source, node)}: the target network is updated only if {ast.unparse(node)}, "
                f"but {counter} grows by {num_envs}, which does not divide {period}; compare with "
                "the step of the last update instead"
            )


def _is_zero(node: ast.Compare) -> bool:
    right = node.comparators[0]
    is_zero = isinstance(right, ast.Constant) and right.value == 0
    return is_zero and isinstance(node.ops[0], ast.Eq)


def _constants(source: Source) -> dict[str, int]:
    """Whole numbers that names stand for, defaults of command-line options too."""
    found: dict[str, int] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            if isinstance(node.value.value, int):
                found.update({dotted(target): node.value.value for target in node.targets})
        elif isinstance(node, ast.Call) and called_name(node).endswith("add_argument"):
            found.update(_default(node))
    return found


def _default(call: ast.Call) -> dict[str, int]:
    names = [arg.value for arg in call.args if isinstance(arg, ast.Constant)]
    for keyword in call.keywords:
        if keyword.arg == "default" and isinstance(keyword.value, ast.Constant) and names:
            value, name = keyword.value.value, str(names[-1]).lstrip("-").replace("-", "_")
            return {f"args.{name}": value} if isinstance(value, int) else {}
    return {}


def _number(node: ast.expr, constants: dict[str, int]) -> int | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value or None
    return constants.get(dotted(node)) or None


def _grows_by_envs(source: Source, counter: str) -> bool:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.AugAssign) and dotted(node.target) == counter:
            return ENVS.search(ast.unparse(node.value)) is not None
        if isinstance(node, ast.For) and dotted(node.target) == counter:
            return ENVS.search(ast.unparse(node.iter)) is not None
    return False


def _is_about_target(source: Source, test: ast.Compare) -> bool:
    """Whether the test, or what depends on it, mentions a target network."""
    if TARGET.search(ast.unparse(test)):
        return True
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If) and any(part is test for part in ast.walk(node.test)):
            return any(TARGET.search(ast.unparse(part)) for part in node.body)
    return False


def _time_limits(source: Source) -> Iterator[str]:
    """`done = terminated or truncated` that is stored as the end of an episode."""
    joined = {
        dotted(node.targets[0])
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Assign) and _joins_ends(node.value)
    }
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not _stores(node) or _keeps_infos(node):
            continue
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        parts = [part for arg in arguments for part in ast.walk(arg)]
        names = {dotted(part) for part in parts if isinstance(part, ast.Name | ast.Attribute)}
        at_once = [ast.unparse(arg) for arg in arguments if _joins_ends(arg)]
        for name in [*sorted(names & joined), *at_once]:
            yield (
                f"{_at(source, node)}: {name} is also true when a time limit ends the episode; "
                "store only `terminated`, because after a time limit there is future reward"
            )


def _joins_ends(value: ast.expr) -> bool:
    """Whether a value is true at both kinds of ends: `terminated or truncated`, in any form."""
    if isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Name | ast.Attribute):
        return False
    names = list(_names_in(value))
    return any(map(TRUNCATED.search, names)) and any(map(TERMINATED.search, names))


def _names_in(value: ast.AST) -> Iterator[str]:
    """Names that a value is made of, without those that only choose it."""
    if isinstance(value, ast.Name | ast.Attribute):
        yield dotted(value)
    for part in ast.iter_child_nodes(value):
        if not (isinstance(value, ast.IfExp) and part is value.test):
            yield from _names_in(part)


def _keeps_infos(call: ast.Call) -> bool:
    """Whether the infos are stored too, from which a buffer may learn about time limits."""
    return any(re.fullmatch(r"infos?", dotted(arg)) for arg in call.args)


def _stores(call: ast.Call) -> bool:
    name = called_name(call)
    last = name.rsplit(".", 1)[-1]
    return name_tag(name) == "store" or (len(call.args) >= 4 and ADDS.match(last) is not None)


def _tied_ratio(source: Source) -> Iterator[str]:
    """The number of updates computed from the number of environments."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign):
            continue
        name, value = dotted(node.targets[0]), ast.unparse(node.value)
        about_updates = re.search(r"update|train|gradient|learn", name, re.IGNORECASE)
        if about_updates and ENVS.search(value) and re.search(r"//|/|\*", value):
            yield (
                f"{_at(source, node)}: {ast.unparse(node)} ties the updates to the number of "
                "environments, so more environments do not save updates"
            )


def _tensors_in_buffer(source: Source, costs: Costs) -> Iterator[str]:
    """Tensors of an accelerator that are pushed into a buffer as they are."""
    devices = costs.seen.state.get("devices")
    if not isinstance(devices, dict) or not any(map(ACCELERATOR.match, devices)):
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and _stores(node) and ".cpu(" not in ast.unparse(node):
            yield f"{_at(source, node)}: the buffer may keep tensors on an accelerator"


def _at(source: Source, node: ast.expr | ast.stmt) -> str:
    return f"{source.path.rsplit('/', 1)[-1]}:{node.lineno}"
