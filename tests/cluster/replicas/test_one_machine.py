"""Replicas that connect over the network find out whether they can share memory."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from briskrl.cluster.replicas import one_machine
from briskrl.cluster.replicas.one_machine import share_memory, this_machine
from briskrl.cluster.replicas.shared_memory import SharedMemoryGroup
from briskrl.cluster.replicas.torch_group import TorchGroup, join_local_group

REPLICAS, TIMEOUT_S = 3, 300.0


def in_all(folder: Path, act: Callable[[Any], Any]) -> list[Any]:
    """What every replica gets; they are threads that are connected by gloo."""

    def replica(rank: int) -> Any:
        group = join_local_group(folder / "meeting", rank, REPLICAS, TIMEOUT_S)
        return act(share_memory(group, TIMEOUT_S))

    with ThreadPoolExecutor(REPLICAS) as pool:
        return list(pool.map(replica, range(REPLICAS)))


def exchange(group: Any) -> tuple[type, list[float], list[list[int]]]:
    values = torch.tensor([group.rank, 10.0 * group.rank])
    group.average(values)
    return type(group), values.tolist(), group.gather(np.array([group.rank, 7])).tolist()


def test_replicas_of_one_machine_share_memory(tmp_path: Path):
    found = in_all(tmp_path, exchange)
    assert found == [(SharedMemoryGroup, [1.0, 10.0], [[0, 7], [1, 7], [2, 7]])] * REPLICAS


@pytest.mark.parametrize("names", [["a", "a", "b"], ["a", "b", "b"], [None, None, None]])
def test_replicas_of_several_machines_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str | None]
):
    # One call per replica, in any order.
    left = list(names)
    monkeypatch.setattr(one_machine, "this_machine", lambda: left.pop(0))
    found = in_all(tmp_path, exchange)
    assert found == [(TorchGroup, [1.0, 10.0], [[0, 7], [1, 7], [2, 7]])] * REPLICAS


def test_a_place_that_is_something_else_is_not_opened(tmp_path: Path):
    (tmp_path / "file").write_bytes(bytes(100))
    message = {"machine": this_machine(), "path": str(tmp_path / "file")}
    encoded = json.dumps(message).encode()
    assert one_machine._open(encoded, 64) is None
    descriptor = one_machine._open(encoded, 100)
    assert descriptor is not None
    os.close(descriptor)
