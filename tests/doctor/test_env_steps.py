"""Hooks on classes that may be environments."""

from __future__ import annotations

from _multibytecodec import MultibyteIncrementalDecoder

from briskrl.doctor.watcher.counts import Counts
from briskrl.doctor.watcher.env_steps import EnvSteps


class Env:
    def reset(self):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


def test_compiled_classes_that_cannot_be_changed_are_left_alone():
    counts = Counts()
    steps = EnvSteps(counts)
    plain = vars(Env)["step"]
    for cls in (MultibyteIncrementalDecoder, Env):
        steps.watch_class(cls)
    env = Env()
    env.reset()
    env.step(0)
    assert (counts.resets, counts.calls) == (1, 1)
    steps.restore()
    assert vars(Env)["step"] is plain
