from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from briskrl.algos.dqn.config import DQNConfig
from briskrl.core.config import (
    Setting,
    build,
    convert,
    describe,
    field_docs,
    field_hints,
    limits,
    merge,
    settings,
    to_dict,
    to_toml,
    try_build,
)
from briskrl.core.errors import ConfigError
from briskrl.envs.snake.config import SnakeConfig
from briskrl.training.config import TrainConfig
from tests.core.config_strategies import dqn_configs, plain, snake_configs

CLASSES = [TrainConfig, DQNConfig, SnakeConfig]


@dataclass(frozen=True)
class Base:
    """A config to inherit from."""

    first: int = 1
    """From the
    base."""


@dataclass(frozen=True)
class Small(Base):
    """Its own fields."""

    size: Annotated[int, Meta(ge=1)] = 3
    """How large."""
    silent: bool = False
    mode: Literal["slow", "swift"] = "slow"
    """How."""
    required: float = dataclasses.field(default=1.0)
    """With a field object."""


@dataclass(frozen=True)
class Needy:
    """A config without defaults."""

    need: int


def test_docs_are_the_strings_under_the_fields_of_the_class_and_its_bases() -> None:
    assert field_docs(Small) == {
        "first": "From the\nbase.",
        "size": "How large.",
        "mode": "How.",
        "required": "With a field object.",
    }


@pytest.mark.parametrize("cls", CLASSES)
def test_every_field_of_every_config_has_a_docstring(cls: type) -> None:
    assert set(field_docs(cls)) == set(field_hints(cls))


@pytest.mark.parametrize("cls", CLASSES)
def test_optional_fields_are_unset_by_default_because_files_cannot_say_none(cls: type) -> None:
    for field in dataclasses.fields(cls):
        if "None" in str(field.type):
            assert field.default is None, field.name


@pytest.mark.parametrize("cls", CLASSES)
def test_defaults_are_valid(cls: type) -> None:
    assert build(cls, {}) == cls()
    assert build(cls, settings(to_dict(cls()))) == cls()


def test_ints_convert_to_floats_and_lists_to_tuples() -> None:
    built = build(DQNConfig, settings({"lr": 1, "net": [8, 8], "train_steps_ratio": 1}))
    assert (built.lr, built.net, built.train_steps_ratio) == (1.0, (8, 8), 1.0)
    assert isinstance(built.lr, float)
    assert isinstance(built.net, tuple)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", True),
        ("batch_size", 8.0),
        ("batch_size", "8"),
        ("batch_size", 0),
        ("batch_size", None),
        ("double", 1),
        ("double", "true"),
        ("lr", 0),
        ("lr", float("nan")),
        ("lr", float("inf")),
        ("lr", 10**400),
        ("v_min", float("-inf")),
        ("train_steps_ratio", float("nan")),
        ("train_steps_ratio", "quick"),
        ("gamma", 1.01),
        ("n_step", 65),
        ("net", []),
        ("net", 128),
        ("net", [128, 0]),
        ("net", {"a": 1}),
        ("body", 5),
    ],
)
def test_wrong_types_and_ranges_are_reported_with_name_value_and_source(
    name: str, value: object
) -> None:
    with pytest.raises(ConfigError) as caught:
        build(DQNConfig, {name: Setting(value, "x.toml, line 7")})
    assert str(caught.value).startswith(f"{name} = ")
    assert "(x.toml, line 7) must be " in str(caught.value)


def test_an_unknown_key_suggests_similar_names() -> None:
    with pytest.raises(
        ConfigError, match=r"Unknown key 'batchsize' \(a.json\). Did you mean 'batch"
    ):
        build(DQNConfig, settings({"batchsize": 3}, "a.json"))


def test_a_wrong_choice_suggests_similar_choices() -> None:
    with pytest.raises(ConfigError, match=r"one of slow, swift\. Did you mean 'swift'"):
        build(Small, settings({"mode": "swft"}))


def test_all_problems_are_reported_in_one_paragraph() -> None:
    wrong = settings({"lr": -1, "bach_size": 3, "gamma": "x", "double": 0})
    with pytest.raises(ConfigError) as caught:
        build(DQNConfig, wrong)
    message = str(caught.value)
    assert message.startswith("4 settings cannot be used. (1) lr = -1 ")
    assert "\n" not in message
    assert all(name in message for name in wrong)


def test_impossible_combinations_name_their_sources() -> None:
    values = {"batch_size": Setting(300, "--batch-size"), "buffer_size": Setting(200, "f, line 2")}
    built, problems = try_build(DQNConfig, values | settings({"learning_starts": 10}))
    assert built is None
    assert problems == [
        "batch_size 300 is larger than buffer_size 200; a batch must fit into the replay buffer "
        "(batch_size: --batch-size; buffer_size: f, line 2)."
    ]


def test_a_missing_value_without_default_is_a_problem() -> None:
    assert try_build(Needy, {}) == (None, ["need is missing; it has no default."])


def test_later_layers_win_and_keep_their_source() -> None:
    merged = merge([settings({"a": 1, "b": 2}, "file"), settings({"b": 3}, "--b")])
    assert merged == {"a": Setting(1, "file"), "b": Setting(3, "--b")}


@pytest.mark.parametrize(
    ("hint", "words", "ends"),
    [
        (int, "an integer", ""),
        (Annotated[int, Meta(ge=1)], "an integer of at least 1", "of at least 1"),
        (Annotated[float, Meta(gt=0, lt=1)], "a number above 0 and below 1", "above 0 and below 1"),
        (Annotated[float, Meta(le=2)], "a number of at most 2", "of at most 2"),
        (bool, "true or false", ""),
        (float | Literal["a", "b"], "a number or one of a, b", ""),
        (Annotated[int, Meta(ge=1)] | None, "an integer of at least 1 or unset", "of at least 1"),
        (
            tuple[Annotated[float, Meta(ge=0, le=1)], Annotated[float, Meta(ge=0, le=1)]],
            "a list of 2 values, each a number from 0 to 1",
            "each from 0 to 1",
        ),
        (tuple[str, ...], "a list of values, each text", ""),
    ],
)
def test_annotations_are_described_in_words(hint: Any, words: str, ends: str) -> None:
    assert describe(hint) == words
    assert limits(hint) == ends


def test_text_with_control_characters_or_surrogates_is_a_problem() -> None:
    for text in ("a\nb", "\x00", "\x9b", "\ud800"):
        with pytest.raises(ValueError, match="control characters"):
            convert(text, str)
    assert convert("naïve 蛇 🐍", str) == "naïve 蛇 🐍"


def test_values_that_contain_themselves_are_a_problem() -> None:
    loop: list[Any] = []
    loop.append(loop)
    built, problems = try_build(DQNConfig, settings({"net": loop, "lr": loop}))
    assert built is None
    assert len(problems) == 2


@given(dqn_configs)
def test_plain_data_of_any_algorithm_config_builds_it_again(config: DQNConfig) -> None:
    assert build(DQNConfig, settings(to_dict(config))) == config


@given(snake_configs)
def test_plain_data_of_any_snake_config_builds_it_again(config: SnakeConfig) -> None:
    assert build(SnakeConfig, settings(to_dict(config))) == config


@pytest.mark.parametrize("cls", CLASSES)
@given(data=st.data())
def test_any_value_of_any_field_builds_or_is_reported(cls: type, data: st.DataObject) -> None:
    names = st.sampled_from(sorted(field_hints(cls)))
    drawn = data.draw(st.dictionaries(names, plain, min_size=1, max_size=4))
    built, problems = try_build(cls, settings(drawn))
    assert (built is None) == bool(problems)
    assert not any("\n" in problem for problem in problems)
    for name, value in drawn.items() if built is not None else ():
        kept = getattr(built, name)
        assert kept == (tuple(value) if isinstance(kept, tuple) else value)


@pytest.mark.parametrize("cls", CLASSES)
@given(key=st.text(max_size=15), value=plain)
def test_any_unknown_key_is_a_config_error(cls: type, key: str, value: object) -> None:
    if key not in field_hints(cls):
        with pytest.raises(ConfigError, match="Unknown key"):
            build(cls, settings({key: value}))


def test_toml_omits_unset_fields() -> None:
    text = to_toml(TrainConfig(episodes=None))
    assert "\nepisodes" not in text
    assert "steps = " in text
