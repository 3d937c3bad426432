"""Metrics in MLflow: at MLFLOW_TRACKING_URI, or in a database in the run folder."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any

from briskrl.training.sinks.base import Points, SinkContext
from briskrl.training.storage.atomic_files import replace

_MOST = 100
"""Parameters in one call."""
_LONGEST = 500
"""Characters of a parameter."""


class MlflowSink:
    """A run of MLflow, which a resumed training continues.

    Args:
        context: About the run.
    """

    def __init__(self, context: SinkContext) -> None:
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        # Creating the database is reported in many lines.
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        logging.getLogger("alembic").setLevel(logging.WARNING)
        folder = context.run_dir / "mlflow"
        folder.mkdir(exist_ok=True)
        local = f"sqlite:///{(folder / 'mlflow.db').resolve()}"
        self._folder = folder
        self._metric: Any = Metric
        self._client: Any = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI") or local)
        known = folder / "run_id.txt"
        if known.is_file():
            self._run_id = known.read_text().strip()
            self._client.set_terminated(self._run_id, "RUNNING")
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "briskrl"
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            experiment = found.experiment_id
        else:
            artifacts = (folder / "artifacts").resolve().as_uri()
            place = None if "MLFLOW_TRACKING_URI" in os.environ else artifacts
            experiment = self._client.create_experiment(name, artifact_location=place)
        run = self._client.create_run(experiment, run_name=context.run_dir.name)
        self._run_id = run.info.run_id
        replace(known, self._run_id.encode(), durable=False)
        params = [Param(k, str(v)[:_LONGEST]) for k, v in context.settings.items()]
        for begin in range(0, len(params), _MOST):
            self._client.log_batch(self._run_id, params=params[begin : begin + _MOST])

    def write(self, points: Points) -> None:
        """See MetricSink."""
        now = int(1000 * time.time())
        metrics = [
            self._metric(name, value, now, step)
            for step, tags in points
            for name, value in tags.items()
        ]
        for begin in range(0, len(metrics), 10 * _MOST):
            self._client.log_batch(self._run_id, metrics=metrics[begin : begin + 10 * _MOST])

    def rewind(self, step: int) -> None:
        """Nothing: MLflow keeps what it has; points that are logged again have the same step."""

    def finish(self, summary: Mapping[str, float], video: bytes | None) -> None:
        """See MetricSink."""
        for name, value in summary.items():
            self._client.log_metric(self._run_id, name, value)
        if video is not None:
            path = self._folder / "game.gif"
            path.write_bytes(video)
            self._client.log_artifact(self._run_id, str(path))

    def close(self) -> None:
        """See MetricSink."""
        self._client.set_terminated(self._run_id)
