"""Random valid settings of any config class, drawn from its annotations alone."""

from __future__ import annotations

import re
import types
from dataclasses import replace
from math import gcd
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hypothesis import strategies as st
from msgspec import Meta

from briskrl.algos.dqn.config import DQNConfig
from briskrl.algos.ppo.config import PPOConfig
from briskrl.algos.pqn.config import PQNConfig
from briskrl.core.config import field_hints
from briskrl.envs.snake.config import SnakeConfig
from briskrl.training.config import Stage, TrainConfig

LARGE = 2**40

# What file formats and shells can carry: anything but control characters and lone surrogates. The
# word "none" unsets an optional flag. Our YAML reads 1e6 as a number where YAML 1.1 does not, so a
# text like it must be quoted, which PyYAML's writer does not know.
ODD = re.compile(r"none|[-+]?[0-9.]+e[-+]?[0-9]+", re.IGNORECASE)
texts = st.text(st.characters(exclude_categories=("Cc", "Cs")), max_size=20).filter(
    lambda text: not ODD.fullmatch(text)
)


def values(hint: Any) -> st.SearchStrategy[Any]:
    """Values a field with this annotation accepts."""
    meta = Meta()
    if get_origin(hint) is Annotated:
        hint, meta = get_args(hint)
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return st.one_of(*map(values, args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin is tuple and args[-1] is Ellipsis:
        return st.lists(values(args[0]), min_size=meta.min_length or 0, max_size=4).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values, args))
    if hint is int:
        low = -LARGE if meta.ge is None else meta.ge
        return st.integers(low, LARGE if meta.le is None else meta.le)
    if hint is float:
        return floats(meta)
    return {bool: st.booleans(), str: texts, types.NoneType: st.none()}[hint]


def floats(meta: Meta) -> st.SearchStrategy[float]:
    return st.floats(
        meta.ge if meta.ge is not None else meta.gt,
        meta.le if meta.le is not None else meta.lt,
        exclude_min=meta.gt is not None,
        exclude_max=meta.lt is not None,
        allow_nan=False,
        allow_infinity=False,
    )


def fields(cls: type) -> st.SearchStrategy[dict[str, Any]]:
    odd = (Any, tuple[Stage, ...], dict[str, Any])
    hints = {name: hint for name, hint in field_hints(cls).items() if hint not in odd}
    return st.fixed_dictionaries({name: values(hint) for name, hint in hints.items()})


def dqn(drawn: dict[str, Any]) -> DQNConfig:
    """A config that `check` accepts, as near to the drawn one as that goes."""
    config = DQNConfig(**drawn | {"body": "auto"})
    ratio = config.train_steps_ratio
    return replace(
        config,
        train_steps_ratio=ratio if isinstance(ratio, str) else abs(ratio) or 1.0,
        buffer_size=max(config.buffer_size, config.batch_size, config.learning_starts),
        **in_order(config),
        grad_accumulation=min(config.grad_accumulation, config.batch_size),
        **untaught(config),
    )


def in_order(config: DQNConfig) -> dict[str, Any]:
    """A range of returns whose ends are in order, if both are numbers."""
    low, high = config.v_min, config.v_max
    if isinstance(low, str) or isinstance(high, str):
        return {}
    low, high = min(low, high), max(low, high)
    # Far from zero one more is no more: such bounds are legal only without a distribution.
    atoms = config.atoms if max(abs(low), abs(high)) < 1e9 else 1
    return {"v_min": low, "v_max": high + 1, "atoms": atoms}


def untaught(config: DQNConfig | PPOConfig) -> dict[str, Any]:
    """Without pretraining unless there is both a teacher and something to do."""
    taught = config.pretrain_from and config.pretrain_steps
    return {} if taught else {"pretrain_from": None, "pretrain_steps": 0}


def snake(drawn: dict[str, Any]) -> SnakeConfig:
    config = SnakeConfig(**drawn)
    low, high = sorted(config.start_fill)
    config = replace(config, start_fill=(low, high), mirror=False)
    if config.grid_frame == "ego":
        config = replace(config, width=config.height)
    if config.start == "cycle" and config.check():
        config = replace(config, height=10, width=10, start_fill=(0.1, 0.9))
    return config


def on_policy(drawn: dict[str, Any]) -> PPOConfig:
    config = PPOConfig(**drawn | {"body": "auto"})
    pieces = min(config.grad_accumulation, config.minibatch_size)
    return replace(config, grad_accumulation=pieces, **untaught(config))


def pqn(drawn: dict[str, Any]) -> PQNConfig:
    config = PQNConfig(**drawn)
    return replace(config, grad_accumulation=min(config.grad_accumulation, config.minibatch_size))


dqn_configs = fields(DQNConfig).map(dqn)
on_policy_configs = fields(PPOConfig).map(on_policy)
ALGO_CONFIGS = {
    "DQNConfig": dqn_configs,
    "PPOConfig": on_policy_configs,
    "PQNConfig": fields(PQNConfig).map(pqn),
}
snake_configs = fields(SnakeConfig).map(snake)


def stage(drawn: dict[str, Any]) -> Stage:
    least, most = {"success": (0.01, 1.0), "steps": (1.0, 1e12)}.get(drawn["until"], (-1e9, 1e9))
    return Stage(**drawn | {"value": min(most, max(least, drawn["value"]))})


stages = st.builds(
    lambda drawn, food: stage(drawn | {"env": {"reward_food": food}}),
    fields(Stage),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def train_configs(draw: st.DrawFn, *, curriculum: bool = True) -> TrainConfig:
    from briskrl.algos.registry import ALGOS

    algo = draw(st.sampled_from(sorted(ALGOS)))
    family = ALGOS.get(algo).config.partition(":")[2]
    drawn = draw(fields(TrainConfig)) | {"env": "snake", "algo": algo, "zoo": False}
    if curriculum:
        drawn["curriculum"] = tuple(draw(st.lists(stages, max_size=2)))
    if drawn["episodes"] is not None:
        drawn["max_episodes"] = None
    # A text of its own form, which tests of evaluation cover.
    drawn["stop_at"] = None
    # Every replica has as many environments, in one process without a second thread of updates.
    drawn["replicas"] = gcd(drawn["num_envs"], drawn["replicas"])
    if drawn["replicas"] > 1:
        drawn |= {"overlap": False, "device": "cpu"}
    return TrainConfig(
        **drawn,
        env_config=draw(snake_configs),
        algo_config=draw(ALGO_CONFIGS[family]),
    )


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.dates()
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
"""Any value a file could hold, right or wrong."""
