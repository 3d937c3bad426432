"""Kill the process of a run at random moments."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

from briskrl.cluster.executor import Executor
from briskrl.cluster.job import JobDone, JobFailed, JobProgress, JobRetried
from briskrl.cluster.run_job import Evaluation, RunJob
from tests.cluster.executor_contract import PATIENCE_S
from tests.cluster.run_configs import long_config

STEPS_PER_KILL = 20_000


def kill_at_random(
    executor: Executor, kills: int, find_worker: Callable[[], int]
) -> tuple[int, str]:
    """Kill the process of a run again and again.

    Returns:
        How often it was killed, and the hash of the model it has ended with.
    """
    moments, killed = random.Random(kills), 0
    config = long_config(steps=STEPS_PER_KILL * (kills + 1))
    executor.submit(RunJob("run", config, Evaluation(episodes=8)))
    while not isinstance(event := executor.wait(PATIENCE_S), JobDone):
        assert event is not None
        assert not isinstance(event, JobFailed)
        if isinstance(event, JobProgress) and killed < kills:
            time.sleep(moments.uniform(0.0, 0.15))
            os.kill(find_worker(), signal.SIGKILL)
            killed += 1
            while not isinstance(executor.wait(PATIENCE_S), JobRetried):
                pass
    return killed, str(event.result["model_sha256"])
