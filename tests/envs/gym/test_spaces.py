"""Conversion of Gymnasium spaces to arrays, and errors for those not supported."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from briskrl.core.errors import ConfigError
from briskrl.core.spec import (
    ArraySpec,
    BoxSpec,
    DiscreteSpec,
    ImagePart,
    MultiDiscreteSpec,
    obs_from_dict,
    obs_to_dict,
)
from briskrl.envs.gym.actions import make_action_converter
from briskrl.envs.gym.spaces import UNBOUNDED, make_obs_converter
from briskrl.envs.gym.vector_base import convert_batch, write_batch


def written(space: spaces.Space[Any], value: Any) -> np.ndarray:
    obs_converter = make_obs_converter(space)
    row = np.full(obs_converter.spec.shape, 77, obs_converter.spec.dtype)
    obs_converter.write(value, row)
    return row


def test_a_float_box_becomes_a_float32_vector() -> None:
    space = spaces.Box(-2, 3, (2, 2), np.float64)
    spec = make_obs_converter(space).spec
    assert (spec.shape, spec.dtype, spec.low, spec.high) == ((4,), np.float32, -2, 3)
    row = written(space, np.array([[0.1, 2], [3, -1]]))
    np.testing.assert_array_equal(row, np.array([0.1, 2, 3, -1], np.float32))


def test_infinite_bounds_become_finite() -> None:
    spec = make_obs_converter(spaces.Box(-np.inf, np.inf, (3,), np.float64)).spec
    assert (spec.low, spec.high) == (-UNBOUNDED, UNBOUNDED)


@pytest.mark.parametrize("dtype", [np.int32, np.int8, np.float16])
def test_boxes_of_other_numbers_become_float32(dtype: Any) -> None:
    row = written(spaces.Box(0, 100, (3,), dtype), np.array([1, 50, 100], dtype))
    np.testing.assert_array_equal(row, np.array([1, 50, 100], np.float32))


def test_bytes_stay_bytes() -> None:
    row = written(spaces.Box(0, 255, (128,), np.uint8), np.arange(128, dtype=np.uint8))
    assert row.dtype == np.uint8
    np.testing.assert_array_equal(row, np.arange(128))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_an_image_becomes_planes(dtype: Any) -> None:
    image = np.arange(5 * 7 * 3).reshape(5, 7, 3).astype(dtype)
    row = written(spaces.Box(0, 255, (5, 7, 3), dtype), image)
    assert row.shape == (3, 5, 7)
    assert row.dtype == dtype
    for channel in range(3):
        np.testing.assert_array_equal(row[channel], image[:, :, channel])


def test_planes_stay_planes() -> None:
    stack = np.arange(4 * 84 * 84, dtype=np.int64).reshape(4, 84, 84).astype(np.uint8)
    np.testing.assert_array_equal(written(spaces.Box(0, 255, (4, 84, 84), np.uint8), stack), stack)


def test_discrete_becomes_a_one_hot_vector_from_its_start() -> None:
    row = written(spaces.Discrete(4, start=-1), np.int64(1))
    np.testing.assert_array_equal(row, [0, 0, 1, 0])


def test_multi_discrete_becomes_concatenated_one_hot_vectors() -> None:
    row = written(spaces.MultiDiscrete([2, 3], start=[0, 10]), np.array([1, 12]))
    np.testing.assert_array_equal(row, [0, 1, 0, 0, 1])


def test_multi_binary_becomes_its_bits() -> None:
    row = written(spaces.MultiBinary((2, 2)), np.array([[1, 0], [0, 1]], np.int8))
    np.testing.assert_array_equal(row, [1, 0, 0, 1])


def test_nested_spaces_are_concatenated() -> None:
    space = spaces.Dict(
        {
            "z": spaces.Tuple((spaces.Discrete(2), spaces.Box(-1, 9, (2,), np.float32))),
            "a": spaces.MultiBinary(1),
        }
    )
    value = {"z": (1, np.array([5, 6], np.float32)), "a": np.array([1], np.int8)}
    parts = {"z": [0, 1, 5, 6], "a": [1]}
    expected = np.concatenate([parts[key] for key in space.spaces])
    np.testing.assert_array_equal(written(space, value), expected)
    assert (make_obs_converter(space).spec.low, make_obs_converter(space).spec.high) == (-1, 9)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(5), "Text space"),
        (spaces.Sequence(spaces.Discrete(2)), "Sequence space"),
        (spaces.Graph(spaces.Discrete(2), None), "Graph space"),
        (spaces.OneOf([spaces.Discrete(2)]), "OneOf space"),
        (spaces.Dict(words=spaces.Sequence(spaces.Discrete(2))), r"\['words'\] is a Sequence"),
        (spaces.Dict(view=spaces.Box(0, 255, (2, 8, 8, 3), np.uint8)), r"\['view'\] is an image"),
        (spaces.Dict(mission=spaces.Text(5)), "consists of texts only"),
        (spaces.Discrete(10**6), "too large"),
    ],
)
def test_other_observation_spaces_are_an_error_with_the_reason(space: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_obs_converter(space, "gym:X")


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(-1, 1, (4,), np.float32), np.zeros(3, np.float32)),
        (spaces.Box(-1, 1, (4,), np.float32), np.float32(1)),
        (spaces.Box(-1, 1, (4,), np.float32), np.zeros((1, 4), np.float32)),
        (spaces.Discrete(3), 3),
        (spaces.Discrete(3), -1),
        (spaces.MultiDiscrete([2, 2]), np.array([0, 2])),
        (spaces.Dict(a=spaces.Discrete(2)), {"b": 1}),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), (1,)),
    ],
)
def test_an_observation_outside_its_space_is_an_error(space: Any, value: Any) -> None:
    with pytest.raises(ValueError, match="observation"):
        written(space, value)


def test_discrete_actions_are_shifted_by_the_start() -> None:
    action_converter = make_action_converter(spaces.Discrete(3, start=5), joint=False)
    assert action_converter.spec == DiscreteSpec(3)
    assert action_converter.convert is not None
    assert [int(action_converter.convert(np.int64(k))) for k in range(3)] == [5, 6, 7]
    assert make_action_converter(spaces.Discrete(3), joint=False).convert is None


def test_multi_discrete_actions_are_members_of_their_space() -> None:
    space = spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [0, 2]])
    action_converter = make_action_converter(space, joint=False)
    assert action_converter.spec == MultiDiscreteSpec((2, 3, 4, 5))
    assert action_converter.convert is not None
    row = np.array([1, 2, 3, 4])
    value = action_converter.convert(row)
    assert space.contains(value)
    np.testing.assert_array_equal(value, [[2, 2], [3, 6]])
    assert not np.shares_memory(value, row)


@pytest.mark.parametrize(
    "space", [spaces.MultiDiscrete([3, 2], start=[1, 0]), spaces.MultiBinary(3)]
)
def test_a_joint_action_reaches_every_combination_once(space: Any) -> None:
    action_converter = make_action_converter(space, joint=True)
    assert isinstance(action_converter.spec, DiscreteSpec)
    assert action_converter.convert is not None
    values = [action_converter.convert(np.int64(k)) for k in range(action_converter.spec.n)]
    assert all(space.contains(value) for value in values)
    assert (
        len({value.tobytes() for value in values})
        == action_converter.spec.n
        == (6 if space.shape == (2,) else 8)
    )


def test_too_many_combinations_are_an_error() -> None:
    with pytest.raises(ConfigError, match="combinations"):
        make_action_converter(spaces.MultiDiscrete([100, 100, 100]), joint=True)


def test_box_actions_are_clipped_element_by_element() -> None:
    space = spaces.Box(np.array([[-1, -2]]), np.array([[1, 5]]), dtype=np.float64)
    action_converter = make_action_converter(space, joint=False)
    assert action_converter.spec == BoxSpec((2,), -2.0, 5.0)
    assert action_converter.convert is not None
    row = np.array([-3, 9], np.float32)
    value = action_converter.convert(row)
    assert value.dtype == np.float64
    np.testing.assert_array_equal(value, [[-1, 5]])
    np.testing.assert_array_equal(row, [-3, 9])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Text(3), "Text space"),
        (spaces.Dict(a=spaces.Discrete(2)), "Dict space"),
        (spaces.Box(0, 9, (2,), np.int32), "Box of int32"),
    ],
)
def test_other_action_spaces_are_an_error_with_the_reason(space: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_action_converter(space, joint=False, source="gym:X")


OBSERVED = [
    spaces.Box(-1, 1, (3,), np.float64),
    spaces.Box(-1, 1, (2, 2), np.float32),
    spaces.Box(0, 255, (5, 6, 3), np.uint8),
    spaces.Discrete(4, start=2),
    spaces.MultiDiscrete([2, 3]),
    spaces.Dict(a=spaces.Discrete(2), b=spaces.Box(-1, 1, (2,), np.float32)),
]


@pytest.mark.parametrize("space", OBSERVED, ids=str)
def test_a_batch_of_observations_equals_its_members(space: Any) -> None:
    from gymnasium.vector.utils import concatenate, create_empty_array

    space.seed(0)
    values = [space.sample() for _ in range(4)]
    obs_converter = make_obs_converter(space)
    shape = (4, *obs_converter.spec.shape)
    one_by_one, concurrent_steps = np.zeros((2, *shape), obs_converter.spec.dtype)
    for value, row in zip(values, one_by_one, strict=True):
        obs_converter.write(value, row)
    batch = concatenate(space, values, create_empty_array(space, 4))
    write_batch(space, obs_converter, 4)(batch, concurrent_steps)
    np.testing.assert_array_equal(concurrent_steps, one_by_one)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(4, start=2),
        spaces.MultiDiscrete([[2, 3]], start=[[1, 4]]),
        spaces.MultiBinary(3),
        spaces.Box(np.array([[-1, -2]]), np.array([[1, 5]]), dtype=np.float64),
    ],
    ids=str,
)
def test_a_batch_of_actions_equals_its_members(space: Any) -> None:
    action_converter = make_action_converter(space, joint=False)
    assert action_converter.convert is not None
    rng = np.random.default_rng(0)
    if isinstance(action_converter.spec, DiscreteSpec):
        actions: Any = rng.integers(action_converter.spec.n, size=5)
    elif isinstance(action_converter.spec, MultiDiscreteSpec):
        actions = rng.integers(
            action_converter.spec.nvec, size=(5, len(action_converter.spec.nvec))
        )
    else:
        actions = rng.normal(0, 4, (5, *action_converter.spec.shape)).astype(np.float32)
    batch = convert_batch(space)(actions)
    assert not np.shares_memory(batch, actions)
    for row, member in zip(actions, batch, strict=True):
        np.testing.assert_array_equal(action_converter.convert(row), member)


def test_images_of_a_dict_keep_their_shape_and_texts_are_left_out() -> None:
    inner = spaces.Tuple((spaces.Discrete(3), spaces.Box(0, 255, (2, 9, 9), np.uint8)))
    space = spaces.Dict(
        camera=spaces.Box(0, 255, (4, 5, 3), np.uint8), inner=inner, task=spaces.Text(5)
    )
    converter = make_obs_converter(space)
    assert converter.left_out == ("task",)
    assert converter.spec.images == (
        ImagePart("camera", (3, 4, 5), 0),
        ImagePart("inner.1", (2, 9, 9), 63),
    )
    assert converter.spec.dtype == np.uint8
    value = space.sample()
    row = np.zeros(converter.spec.shape, np.uint8)
    converter.write(value, row)
    np.testing.assert_array_equal(row[:60].reshape(3, 4, 5), value["camera"].transpose(2, 0, 1))
    np.testing.assert_array_equal(row[60:63], np.eye(3)[value["inner"][0]])
    np.testing.assert_array_equal(row[63:].reshape(2, 9, 9), value["inner"][1])


def test_numbers_beside_an_image_stay_numbers() -> None:
    space = spaces.Dict(
        speed=spaces.Box(-5, 5, (2,), np.float32), view=spaces.Box(0, 255, (4, 5, 3), np.uint8)
    )
    converter = make_obs_converter(space)
    assert converter.spec.dtype == np.float32
    row = np.zeros(converter.spec.shape, np.float32)
    converter.write({"speed": np.array([-2.5, 0.5]), "view": np.full((4, 5, 3), 200)}, row)
    assert row.tolist() == [-2.5, 0.5] + [200.0] * 60


def test_specs_with_images_survive_json() -> None:
    spec = ArraySpec.of((70,), np.uint8, 0, 255, (ImagePart("view", (3, 4, 5), 10),))
    assert obs_from_dict(json.loads(json.dumps(obs_to_dict(spec)))) == spec
    plain = ArraySpec.of((3, 4, 5), np.float32, -1, 1)
    assert obs_from_dict(json.loads(json.dumps(obs_to_dict(plain)))) == plain
    outside = {**obs_to_dict(spec), "shape": [60]}
    with pytest.raises(ValueError, match="outside"):
        obs_from_dict(outside)
