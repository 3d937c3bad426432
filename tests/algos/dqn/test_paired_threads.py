"""Updates that are done without the helper thread for a while give equal results."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.algos.dqn.config import DQN_PRESETS
from briskrl.algos.dqn.kernels.paired_threads import BACKOFF, ROUND
from tests.algos import transitions
from tests.fused.test_determinism import helper_thread_of


@pytest.mark.parametrize("preset", [pytest.param("dqn", marks=pytest.mark.slow), "rainbow"])
def test_updates_without_the_helper_in_between_do_not_change_the_bits(preset):
    config = transitions.small(**{**DQN_PRESETS[preset], "net": (40, 24), "target_every": 7})
    env = transitions.spec()
    batch = transitions.random_batch(env, 30, 64)
    found = []
    for alone in (0, 7):
        engine = transitions.make(config, env, engine="fused", overlap=True).engines.now
        with helper_thread_of(engine, batch):
            for k in range(20):
                engine._mailbox[BACKOFF] = alone
                engine.update(batch, 30, 30 * k)
        assert engine._mailbox[ROUND] > 0
        found.append(engine._model.online_flat.values.numpy())
    assert np.array_equal(*found)
