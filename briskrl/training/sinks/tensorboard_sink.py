"""Metrics as TensorBoard files with hyper-parameters, the final evaluation and a game."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping

from PIL import Image

from briskrl.training.sinks.base import Points, SinkContext
from briskrl.training.storage.tensorboard import TensorBoardSink


class TensorBoardLog:
    """TensorBoard files in the folder tensorboard/ of the run.

    Args:
        context: About the run.
    """

    def __init__(self, context: SinkContext) -> None:
        self._files = TensorBoardSink(context.run_dir / "tensorboard")
        self._files.add_summary(_hyper_parameters(context.settings), step=0)
        self._step = 0

    def write(self, points: Points) -> None:
        """See MetricSink."""
        self._files.write([{"env_steps": step, **tags} for step, tags in points])
        self._step = max([self._step, *(step for step, _ in points)])

    def rewind(self, step: int) -> None:
        """See MetricSink."""
        self._files.rewind(step)

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """See MetricSink."""
        self._files.write([{"env_steps": self._step, **summary}])
        if video is not None:
            from tensorboard.compat.proto import summary_pb2

            width, height = Image.open(io.BytesIO(video)).size
            picture = summary_pb2.Summary.Image(
                height=height, width=width, colorspace=3, encoded_image_string=video
            )
            value = summary_pb2.Summary.Value(tag="game", image=picture)
            self._files.add_summary(summary_pb2.Summary(value=[value]), step=self._step)

    def close(self) -> None:
        """See MetricSink."""
        self._files.close()


def _hyper_parameters(settings: Mapping[str, object]) -> object:
    """The record that the page HPARAMS of TensorBoard shows."""
    from tensorboard.plugins.hparams import summary_v2

    values = {
        name: value if isinstance(value, bool | int | float | str) else json.dumps(value)
        for name, value in settings.items()
    }
    return summary_v2.hparams_pb(values)
