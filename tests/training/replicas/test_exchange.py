"""What replicas exchange once per round."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.core.types import EpisodeStats
from briskrl.training.replicas.exchange import Decision, Exchange, ReplicasDifferError
from tests.training.replicas.thread_group import ThreadGroup, in_threads

ENVS = 4


def episodes(env: list[int], score: float) -> EpisodeStats:
    count = len(env)
    return EpisodeStats(
        env=np.array(env, np.int32),
        steps=np.full(count, 7, np.int32),
        returns=np.full(count, 1.5, np.float32),
        score=np.full(count, score, np.float32),
        won=np.arange(count) % 2 == 0,
        cause=np.full(count, 3, np.uint8),
    )


def test_episodes_come_in_the_order_of_one_process():
    def work(group: ThreadGroup):
        ended = [(80, episodes([2], group.rank)), (160, episodes([0, 3], group.rank))]
        exchange = Exchange(group, ENVS)
        return exchange.run(ended[group.rank :], env_steps=160, cpu_s=2.0, decision=Decision())

    for found in in_threads(2, work):
        assert [step for step, _ in found.ended] == [80, 160]
        assert found.ended[0][1].env.tolist() == [2]
        assert found.ended[1][1].env.tolist() == [0, 3, 4, 7]
        assert found.ended[1][1].score.tolist() == [0, 0, 1, 1]
        assert (found.episodes, found.cpu_s) == (5, (2.0, 2.0))


def test_more_episodes_than_there_was_room_for_are_exchanged_whole():
    def work(group: ThreadGroup):
        exchange = Exchange(group, ENVS)
        many = 100 if group.rank else 1
        rounds = []
        for _ in range(2):
            ended = [(64, episodes([0] * many, 1.0))]
            rounds.append(exchange.run(ended, env_steps=64, cpu_s=0.0, decision=Decision()))
        return rounds

    for rounds in in_threads(2, work):
        assert [found.episodes for found in rounds] == [101, 101]
        assert [found.ended[0][1].count for found in rounds] == [101, 101]


def test_only_the_first_replica_decides():
    def work(group: ThreadGroup):
        decision = Decision(True, "sigterm") if group.rank == 0 else Decision()
        return Exchange(group, ENVS).run([], env_steps=1, cpu_s=0.0, decision=decision).decision

    assert in_threads(3, work) == [Decision(True, "sigterm")] * 3


@pytest.mark.parametrize(
    ("what", "env_steps", "digest"), [("numbers of steps", 1, 0), ("weights", 0, 1)]
)
def test_replicas_that_differ_end_the_run(what: str, env_steps: int, digest: int):
    def work(group: ThreadGroup):
        return Exchange(group, ENVS).run(
            [],
            env_steps=64 + env_steps * group.rank,
            cpu_s=0.0,
            digest=5 + digest * group.rank,
            decision=Decision(),
        )

    with pytest.raises(ReplicasDifferError, match=f"different {what} after 64 steps"):
        in_threads(2, work)
