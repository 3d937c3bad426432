"""Metrics in Weights & Biases; offline unless it is told otherwise or logged in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from briskrl.training.sinks.base import Points, SinkContext
from briskrl.training.storage.atomic_files import replace

_STEP = "env_steps"


class WandbSink:
    """A run of wandb, which a resumed training continues under the same id.

    WANDB_MODE, WANDB_PROJECT and the other variables of wandb are respected. Without a key the mode
    is offline: files in the run folder, for `wandb sync`.

    Args:
        context: About the run.
    """

    def __init__(self, context: SinkContext) -> None:
        import wandb

        mode: Any = os.environ.get("WANDB_MODE") or ("online" if wandb.api.api_key else "offline")
        folder = context.run_dir / "wandb"
        folder.mkdir(exist_ok=True)
        known = folder / "run_id.txt"
        run_id = known.read_text().strip() if known.is_file() else uuid4().hex[:8]
        replace(known, run_id.encode(), durable=False)
        self._wandb: Any = wandb
        self._folder = folder
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or "briskrl",
            id=run_id,
            name=context.run_dir.name,
            dir=str(context.run_dir),
            config=dict(context.settings),
            tags=[context.env, context.algo],
            mode=mode,
            resume="allow" if mode == "online" else None,
            settings=wandb.Settings(console="off", silent=True),
        )
        self._run.define_metric("*", step_metric=_STEP)

    def write(self, points: Points) -> None:
        """See MetricSink."""
        for step, tags in points:
            self._run.log({_STEP: step, **tags})

    def rewind(self, step: int) -> None:
        """Nothing: wandb keeps what it has; points that are logged again have the same step."""

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """See MetricSink."""
        self._run.summary.update(dict(summary))
        if video is not None:
            path = self._folder / "game.gif"
            path.write_bytes(video)
            self._run.log({"game": self._wandb.Video(str(path), format="gif")})

    def close(self) -> None:
        """See MetricSink."""
        self._run.finish()
