"""The states of all replicas as that of one run, for checkpoints, which the first replica writes.

While the first replica saves or loads, the others `serve` it: they send their states and the chunks
of their memories when they are asked for, and load what they are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import process_time
from typing import Any

from briskrl.core.errors import InvalidStateError
from briskrl.core.state_checks import invalid_state
from briskrl.core.types import Array, ChunkSource, State
from briskrl.nets.replica_group import ReplicaGroup
from briskrl.training.replicas.names import count_replicas, owner, prefix
from briskrl.training.replicas.parcels import pack, pack_states, unpack, unpack_states
from briskrl.training.storage.checkpoint import RunState
from briskrl.training.trainer import Trainer


class WholeRun:
    """The state of a run with replicas, as the first of them sees it.

    Args:
        trainer: That of the first replica.
        group: The replicas.
    """

    def __init__(self, trainer: Trainer, group: ReplicaGroup) -> None:
        self._trainer = trainer
        self._group = group
        self._others = range(1, group.size)
        self.memory: ChunkSource = _AllMemories(trainer.memory, group)
        """The chunks of all memories."""
        self._other_cpu_s = 0.0

    def add_cpu_of_others(self, cpu_s: Sequence[float]) -> None:
        """Take over what all replicas have reported, by rank."""
        self._other_cpu_s = sum(cpu_s[1:])

    def cpu_s(self) -> float:
        """CPU seconds of all replicas, those of the others at their last report."""
        return process_time() + self._other_cpu_s

    @contextmanager
    def served(self) -> Iterator[None]:
        """While entered, the others serve this replica; they must have called `serve`."""
        try:
            yield
        finally:
            for rank in self._others:
                self._group.send(pack({"do": "end"}), rank)

    def state(self) -> RunState:
        """The states of all replicas, those of the others under names of their own."""
        whole = self._trainer.state()
        for rank in self._others:
            _, states = unpack_states(_ask(self._group, rank, pack({"do": "state"})))
            whole.states.update({prefix(rank) + name: state for name, state in states.items()})
        whole.memory = self.memory
        return whole

    def load_state(self, states: dict[str, State], counters: dict[str, int]) -> None:
        """Continue from saved states, on all replicas.

        Raises:
            InvalidStateError: They are of another number of replicas, or impossible.
        """
        saved = count_replicas(states)
        if saved != self._group.size:
            raise InvalidStateError(
                f"it was saved by {saved} replicas and cannot be continued by {self._group.size}"
            )
        for rank in self._others:
            before = prefix(rank)
            own = {
                name.removeprefix(before): state
                for name, state in states.items()
                if name.startswith(before)
            }
            request = pack_states({"do": "load", "counters": counters}, own)
            _check(_ask(self._group, rank, request))
        alone = {name: state for name, state in states.items() if not name.startswith("replica")}
        self._trainer.load_state(alone, counters)


class _AllMemories:
    """The chunks of all replicas' memories."""

    def __init__(self, own: ChunkSource, group: ReplicaGroup) -> None:
        self._own = own
        self._group = group

    def chunk_versions(self) -> Mapping[str, int]:
        versions = dict(self._own.chunk_versions())
        for rank in range(1, self._group.size):
            found, _ = unpack(_ask(self._group, rank, pack({"do": "versions"})))
            versions |= {prefix(rank) + name: version for name, version in found.items()}
        return versions

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        rank, own_name = owner(name)
        if not rank:
            return self._own.read_chunk(name)
        return unpack(_ask(self._group, rank, pack({"do": "read", "name": own_name})))[1]

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        rank, own_name = owner(name)
        if not rank:
            self._own.load_chunk(name, arrays)
        else:
            request = pack({"do": "load chunk", "name": own_name}, arrays)
            _check(_ask(self._group, rank, request))


def _ask(group: ReplicaGroup, rank: int, request: bytes) -> bytes:
    group.send(request, rank)
    return group.receive(rank)


def _check(answer: bytes) -> None:
    values, _ = unpack(answer)
    if values["error"]:
        raise InvalidStateError(values["error"])


def serve(trainer: Trainer, group: ReplicaGroup) -> bool:
    """Serve the first replica until it says `end`; returns whether a state was loaded."""
    loaded = False
    while True:
        values, arrays = unpack(data := group.receive(0))
        if values["do"] == "end":
            return loaded
        answer = _answer(trainer, values, arrays, data)
        loaded |= values["do"] == "load"
        group.send(answer, 0)


def _answer(
    trainer: Trainer, values: dict[str, Any], arrays: Mapping[str, Array], data: bytes
) -> bytes:
    match values["do"]:
        case "state":
            return pack_states({}, trainer.state().states)
        case "versions":
            return pack(dict(trainer.memory.chunk_versions()))
        case "read":
            return pack({}, trainer.memory.read_chunk(values["name"]))
        case "load":
            values, states = unpack_states(data)
            return _try(lambda: trainer.load_state(states, values["counters"]))
        case "load chunk":
            return _try(lambda: trainer.memory.load_chunk(values["name"], arrays))
    raise ValueError(f"a replica cannot {values['do']!r}")


def _try(load: Callable[[], None]) -> bytes:
    """Load something; the answer holds what is wrong with it."""
    try:
        with invalid_state("a replica's state"):
            load()
    except InvalidStateError as error:
        return pack({"error": str(error)})
    return pack({"error": ""})
