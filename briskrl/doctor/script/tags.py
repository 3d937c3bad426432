"""What a single function or call does, by its name and place: env, update, store, log, ..."""

from __future__ import annotations

import ast
import re
from functools import cache

from briskrl.doctor.script.recording import Code, Frame
from briskrl.doctor.script.source import Sources, called_name

LIBRARIES = (
    (r"/(gymnasium|gym|envpool|ale_py|mujoco|minigrid|minatar)/", "env"),
    (r"/torch/optim/lr_scheduler", ""),
    (r"/torch/jit/(_trace|_recursive|frontend)|/torch/_dynamo/convert_frame", "compile"),
    (r"/torch/_inductor/compile_fx|/jax/_src/(compiler|interpreters/mlir)", "compile"),
    (r"/numba/core/compiler", "compile"),
    (r"/torch/optim/|/torch/autograd/graph|/torch/nn/utils/clip_grad|/torch/_tensor\.py", "torch"),
    (r"/torch/nn/modules/|/torch/nn/functional", "forward"),
    (r"/torch/utils/tensorboard/|/tensorboardX?/|/wandb/|/mlflow/|/logging/|/csv\.py", "log"),
    (r"/tqdm/|/rich/|/matplotlib/", "log"),
    (r"/torch/serialization|/pickle\.py", "save"),
)
"""Phases of functions of libraries, by file."""
MAKES = re.compile(r"^(make|make_vec|load_env_creator|spec|_find_spec|find_highest_version)$")
ADDS = re.compile(r"^(push|add|store|append|insert|record|remember|put|save|write|extend)(_|$)")
DRAWS = re.compile(r"^_*(sample|get|draw|get_batch|__getitem__|batch)(_|$)|minibatch|_sample")
BUFFERS = re.compile(r"buffer|memory|replay|rollout|storage|transitions|experience", re.IGNORECASE)
STORES = re.compile(r"^(push|add|store|append|insert|remember)(_|$)")
SAMPLERS = {"sample", "sample_batch", "get_batch", "draw"}
AGENTS = {"learn", "train", "predict", "forward", "act", "step", "select_action", "update_target"}
"""Methods that a buffer has and an agent has not, and the other way round."""
EVALUATES = re.compile(r"^_*(evaluate|eval|test|validate)(_(agent|policy|model|network))?$")
LOGGERS = re.compile(r"logger|writer|metrics|tracker|recorder|monitor", re.IGNORECASE)
PRINTS = re.compile(r"(^|\.)(print|pprint|fsync|flush|writerow|writerows|writelines|write)$")
LOG_CALLS = re.compile(
    r"(^|\.)(add_scalars?|add_histogram|add_image|add_figure|savefig|log_metrics?)$"
    r"|(^|\.)(logging|logger|log|wandb|mlflow)\.(debug|info|warning|error|log|record|dump)$"
    r"|^json\.dumps?$"
)
SAVES = re.compile(
    r"^(torch\.save|pickle\.dump|np\.savez?(_compressed)?|numpy\.savez?|joblib\.dump)$"
)
SLEEPS = re.compile(r"^(time\.)?sleep$")
COPIES = re.compile(r"\.(item|cpu|numpy|tolist|cuda)$|(^|\.)(from_numpy|as_tensor)$")
LEARNS = re.compile(r"(^|\.)(backward|zero_grad|apply_gradients|apply_updates)$")


@cache
def library_tag(code: Code) -> str:
    """What a function of a library does; empty if that does not matter."""
    file = code.file.replace("\\", "/")
    for pattern, tag in LIBRARIES:
        if re.search(pattern, file):
            name = code.name.rsplit(".", 1)[-1]
            if tag == "env":
                return "make" if MAKES.match(name) else "env"
            if tag == "torch":
                return _torch_tag(file, code.name)
            return tag
    return ""


def _torch_tag(file: str, name: str) -> str:
    if file.endswith("_tensor.py"):
        return "update" if name.endswith("backward") else ""
    return "update"


@cache
def _is_env_class(cls: ast.ClassDef) -> bool:
    """Whether a class looks like an environment: `step` that returns several values."""
    methods = {item.name: item for item in cls.body if isinstance(item, ast.FunctionDef)}
    if "step" not in methods and "step_wait" not in methods:
        return False
    if "zero_grad" in methods or "forward" in methods:
        return False
    method = methods.get("step") or methods["step_wait"]
    returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)]
    return "reset" in methods or any(
        isinstance(value, ast.Tuple) and 3 <= len(value.elts) <= 6 for value in returned
    )


def is_buffer_class(cls: ast.ClassDef) -> bool:
    """Whether a class looks like a replay buffer."""
    names = {item.name for item in cls.body if isinstance(item, ast.FunctionDef)}
    if names & AGENTS:
        return False
    return bool(BUFFERS.search(cls.name)) or (
        any(STORES.match(name) for name in names) and bool(names & SAMPLERS)
    )


def function_tag(frame: Frame, sources: Sources) -> str:
    """What a method of the script does, by its class."""
    name = frame.code.name.rsplit(".", 1)[-1]
    source = sources.of(frame.code.file)
    cls = source.class_of.get(frame.code.line)
    if cls is None:
        return "eval" if EVALUATES.match(name) else ""
    if _is_env_class(cls) and name != "__init__":
        return "env"
    if is_buffer_class(cls):
        if DRAWS.search(name) or name == "sample":
            return "sample"
        return "store" if ADDS.match(name) else ""
    if LOGGERS.search(cls.name) and name != "__init__":
        return "log"
    return "eval" if EVALUATES.match(name) else ""


def call_tag(frame: Frame, sources: Sources) -> str:
    """What the call at a position does, by the names in it."""
    if frame.place is None:
        return ""
    call = sources.of(frame.code.file).call_at(frame.place)
    return "" if call is None else name_tag(called_name(call))


@cache
def name_tag(name: str) -> str:
    """What a call does by its dotted name."""
    *before, last = name.split(".")
    for pattern, tag in ((PRINTS, "log"), (LOG_CALLS, "log"), (SAVES, "save"), (SLEEPS, "wait")):
        if pattern.search(name):
            return tag
    if LEARNS.search(name):
        return "update"
    if before and BUFFERS.search(before[-1]):
        if ADDS.match(last):
            return "store"
        if DRAWS.search(last):
            return "sample"
    if name == "random.sample":
        return "sample"
    if name == "gc.collect":
        return "gc"
    return ""
