"""The choice of a network body for observations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

from briskrl.core.errors import ConfigError
from briskrl.core.spec import ArraySpec
from briskrl.nets.bodies import BodyOptions, FCNBody, MLPBody
from briskrl.nets.custom_body import CustomBody
from briskrl.nets.image_bodies import (
    CNN_CHANNELS,
    NATURE_CHANNELS,
    NATURE_LAYERS,
    CNNBody,
    MultiInputBody,
    is_large,
)

FCN_CHANNELS = (16,) * 6
"""Default of a fully convolutional body."""

Body = MLPBody | CNNBody | FCNBody | MultiInputBody | CustomBody
Kind = Literal["mlp", "cnn", "nature", "fcn"]


def build_body(obs: ArraySpec, options: BodyOptions, outputs: int) -> Body:
    """The body for these observations; the caller draws its weights.

    Args:
        obs: The observations.
        options: The architecture; auto means an fcn where there is one output per cell, strided
            convolutions (nature) for large pictures, a cnn for other planes, and an mlp for
            vectors. A vector with images has convolutions for each of them.
        outputs: The number of outputs of its head.

    Raises:
        ConfigError: The requested body does not fit the observations or the outputs.
    """
    norm = options.layer_norm
    if ":" in options.kind:
        return CustomBody(options.kind, obs)
    if obs.images and len(obs.shape) == 1 and options.kind in ("auto", "cnn", "nature"):
        strided = None if options.kind == "auto" else options.kind == "nature"
        channels = _channels(options, strided=bool(strided))
        return MultiInputBody(
            obs, channels, options.widths, options.activation, strided=strided, layer_norm=norm
        )
    kind = _kind(obs, options.kind, outputs)
    if kind == "mlp":
        return MLPBody(obs.size, options.widths, options.activation, layer_norm=norm)
    planes, height, width = obs.shape
    shape = (planes, height, width)
    if kind == "fcn":
        return FCNBody(shape, options.channels or FCN_CHANNELS, options.activation)
    strided = kind == "nature"
    channels = _channels(options, strided=strided) or (NATURE_CHANNELS if strided else CNN_CHANNELS)
    return CNNBody(
        shape, channels, options.widths, options.activation, strided=strided, layer_norm=norm
    )


def _channels(options: BodyOptions, *, strided: bool) -> Sequence[int] | None:
    """The channels asked for; None for the default.

    Raises:
        ConfigError: A nature body does not have as many layers.
    """
    if strided and options.channels and len(options.channels) != len(NATURE_LAYERS):
        raise ConfigError(
            f"A nature body has {len(NATURE_LAYERS)} convolutions, but channels names "
            f"{len(options.channels)}. Give one number for each, for example 32,64,64."
        )
    return options.channels


def _kind(obs: ArraySpec, asked: str, outputs: int) -> Kind:
    planes = len(obs.shape) == 3
    per_cell = planes and outputs == obs.shape[1] * obs.shape[2]
    if asked == "auto":
        if planes and obs.images and is_large(obs.shape):
            return "nature"
        return "fcn" if per_cell else "cnn" if planes else "mlp"
    if asked != "mlp" and not planes:
        raise ConfigError(
            f"A {asked} body needs planes (C, H, W), but observations have shape {obs.shape}. "
            "Use --body mlp or an observation mode with planes."
        )
    if asked == "fcn" and not per_cell:
        raise ConfigError(
            f"A fcn body gives one output per cell, but there are {outputs} for planes of "
            f"{obs.shape[1]}x{obs.shape[2]} cells. Use --body cnn."
        )
    return cast(Kind, asked)
