"""Networks for pictures and for observations of several parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec, ImagePart
from briskrl.nets.bodies import BodyOptions, InputScaling, MLPBody
from briskrl.nets.body_choice import build_body
from briskrl.nets.image_bodies import CNNBody, MultiInputBody

AUTO = BodyOptions("auto", (16,), None)


def picture(side: int, planes: int = 4) -> ArraySpec:
    shape = (planes, side, side)
    return ArraySpec.of(shape, np.uint8, 0, 255, (ImagePart("", shape, 0),))


VIEW = ImagePart("view", (3, 4, 5), 2)
MIXED = ArraySpec.of((65,), np.float32, -5, 255, (VIEW,))


def test_large_pictures_get_the_strided_convolutions_of_the_nature_paper() -> None:
    """Mnih 2015, methods: 84x84x4 -> 20x20x32 -> 9x9x64 -> 7x7x64 = 3136."""
    body = build_body(picture(84), BodyOptions("auto", (512,), None), 6)
    assert isinstance(body, CNNBody)
    found = [(c.out_channels, c.kernel_size[0], c.stride[0]) for c in body.convolutions]
    assert found == [(32, 8, 4), (64, 4, 2), (64, 3, 1)]
    assert body.cells == [20 * 20, 9 * 9, 7 * 7]
    assert body.mlp.linears[0].in_features == 3136
    assert body(torch.zeros(2, 4, 84, 84)).shape == (2, 512)


def test_small_pictures_and_planes_keep_every_cell() -> None:
    planes = ArraySpec.of((4, 84, 84), np.float32, 0, 1)
    for spec in (picture(35), planes):
        body = build_body(spec, AUTO, 6)
        assert isinstance(body, CNNBody)
        assert {c.stride for c in body.convolutions} == {(1, 1)}


def test_a_nature_body_that_cannot_be_built_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"20x20 is too small.*36x36"):
        build_body(picture(20), BodyOptions("nature", (16,), None), 6)
    with pytest.raises(ConfigError, match="has 3 convolutions, but channels names 2"):
        build_body(picture(84), BodyOptions("nature", (16,), (4, 4)), 6)


def test_parts_are_scaled_by_what_they_are() -> None:
    obs = torch.arange(65.0).reshape(1, 65)
    scaled = InputScaling(MIXED)(obs)
    expected = obs.clone()
    expected[:, 2:62] /= 255
    torch.testing.assert_close(scaled, expected)


def test_a_multi_input_body_computes_convolutions_of_the_image_and_keeps_the_rest() -> None:
    body = build_body(MIXED, BodyOptions("auto", (8,), (6,)), 3)
    assert isinstance(body, MultiInputBody)
    obs = torch.rand(7, 65)
    image = obs[:, 2:62].reshape(7, 3, 4, 5)
    (convolution,) = body.encoders[0].layers
    assert isinstance(convolution, nn.Conv2d)
    seen = torch.relu(convolution(image)).flatten(1)
    expected = body.mlp(torch.cat([seen, obs[:, :2], obs[:, 62:]], 1))
    torch.testing.assert_close(body(obs), expected)
    # Every part matters.
    for place in (0, 30, 64):
        changed = obs.clone()
        changed[:, place] += 1
        assert not torch.equal(body(changed), body(obs))


def test_a_dict_can_be_read_as_a_plain_vector() -> None:
    assert isinstance(build_body(MIXED, BodyOptions("mlp", (8,), None), 3), MLPBody)
