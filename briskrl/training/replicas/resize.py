"""Another number of replicas for a run: its newest checkpoint, divided anew.

A new checkpoint of the same step takes the place of the newest one. Networks, optimizer, statistics
and counters stay as they are. Environments, with their part of the memory, go to other replicas;
random streams of replicas that are new begin with a seed that the step and the number decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from briskrl.algos.registry import ALGOS
from briskrl.core.errors import ConfigError
from briskrl.core.registry import load_object
from briskrl.core.rng import Streams, derive_seed
from briskrl.core.state_checks import invalid_state
from briskrl.core.types import Array, State
from briskrl.envs.division import divide_envs
from briskrl.memory.division import divide_chunks, divide_states, num_envs_of
from briskrl.nets.replica_group import stream_of
from briskrl.training.config import TrainConfig
from briskrl.training.replicas.names import count_replicas, owner, prefix
from briskrl.training.storage.checkpoint import (
    Checkpointer,
    RunState,
    SavedRun,
    list_checkpoints,
    read_own_manifest,
)
from briskrl.training.storage.manifest import DamagedError
from briskrl.training.storage.run_dir import RunDir

_ENV = "env."
"""Before the names of the environments' arrays in the state of a collector."""
_OWN_STREAM = "sample"

States = dict[str, State]


def resize(folder: RunDir, config: TrainConfig) -> str | None:
    """Divide the newest checkpoint among `config.replicas`; returns what to tell the user.

    Nothing is written, and None returned, if no checkpoint has another number of replicas.

    Args:
        folder: The run folder, locked.
        config: Settings to continue with.

    Raises:
        ConfigError: This run cannot have another number of replicas.
        StorageError: The checkpoint cannot be written.
    """
    if not _has_others(folder, config.replicas):
        return None
    checkpointer = Checkpointer(folder.checkpoints, config.keep_checkpoints)
    saved = checkpointer.load()
    before = count_replicas(saved.states)
    if before == config.replicas:
        return None
    with invalid_state(f"The checkpoint {saved.path.name} for {config.replicas} replicas"):
        checkpointer.save(saved.step, _divide(saved, config))
    return (
        f"replicas: {config.replicas} instead of {before}; they share the {config.num_envs:,} "
        "environments and the memory anew"
    )


def _has_others(folder: RunDir, replicas: int) -> bool:
    """Whether there is a checkpoint of another number of replicas."""
    for path in list_checkpoints(folder.checkpoints):
        try:
            if count_replicas(read_own_manifest(path).states) != replicas:
                return True
        except DamagedError:
            # Loading reports it.
            continue
    return False


def _divide(saved: SavedRun, config: TrainConfig) -> RunState:
    """The run that a checkpoint holds, with another number of replicas."""
    number = config.replicas
    seed = derive_seed(config.seed, f"{number} replicas after {saved.step} steps")
    before = _by_replica(saved.states)
    num_envs = num_envs_of(before[0]["memory"])
    memories = divide_states([states["memory"] for states in before], number)
    collectors = _divide_collectors([states["collector"] for states in before], num_envs, number)
    # Logs and evaluations are of the whole run.
    whole = dict(before[0])
    for rank, own in enumerate(_divide_algo(before, config, seed)):
        own |= {
            "memory": memories[rank],
            "collector": collectors[rank],
            "curriculum": before[0]["curriculum"],
            "bookkeeping": _bookkeeping(before, rank, seed),
        }
        whole |= {prefix(rank) + name: state for name, state in own.items()}
    memory = _DividedMemory(saved, len(before), number, num_envs)
    return RunState(whole, saved.counters, memory)


def _by_replica(states: Mapping[str, State]) -> list[States]:
    """The states of every replica, under the names that the first one's have."""
    found: list[States] = [{} for _ in range(count_replicas(states))]
    for name, state in states.items():
        rank, own_name = owner(name)
        found[rank][own_name] = state
    return found


def _divide_algo(before: Sequence[States], config: TrainConfig, seed: int) -> list[States]:
    """The states of the algorithm.

    Raises:
        ConfigError: It cannot be trained by replicas.
    """
    divide = ALGOS.get(config.algo).divide
    if divide is None:
        raise ConfigError(
            f"The algorithm {config.algo!r} cannot be trained by replicas; leave out --replicas."
        )
    divided: list[States] = load_object(divide)(before, config.replicas, seed)
    return divided


def _divide_collectors(before: Sequence[State], num_envs: int, number: int) -> list[State]:
    """The environments, and the observations to act on next."""
    views = [{n: a for n, a in state.arrays.items() if not n.startswith(_ENV)} for state in before]
    envs = [
        {n.removeprefix(_ENV): a for n, a in state.arrays.items() if n.startswith(_ENV)}
        for state in before
    ]
    return [
        State(view | {_ENV + name: array for name, array in env.items()})
        for view, env in zip(
            divide_envs(views, num_envs, number), divide_envs(envs, num_envs, number), strict=True
        )
    ]


def _bookkeeping(before: Sequence[States], rank: int, seed: int) -> State:
    """Random streams, and what all replicas have in common."""
    if rank < len(before):
        return before[rank]["bookkeeping"]
    scalars = before[0]["bookkeeping"].scalars
    streams = {name: place for name, place in scalars["streams"].items() if name != _OWN_STREAM}
    own, begun = stream_of(_OWN_STREAM, rank), Streams(seed)
    streams[own] = begun[own].bit_generator.state
    return State({}, {**scalars, "streams": streams})


class _DividedMemory:
    """The chunks of a saved memory, divided while they are written.

    Args:
        saved: The checkpoint.
        before: Its replicas.
        number: Those to divide it among.
        num_envs: Environments of each replica that has saved it.
    """

    def __init__(self, saved: SavedRun, before: int, number: int, num_envs: int) -> None:
        self._saved = saved
        self._before = before
        self._number = number
        self._num_envs = num_envs
        self._name = ""
        self._parts: Sequence[Mapping[str, Array]] = ()
        """The last chunks that were read, by replica."""

    def chunk_versions(self) -> Mapping[str, int]:
        """See ChunkSource."""
        names = [name for name in self._saved.manifest.chunks if not owner(name)[0]]
        return {prefix(rank) + name: 0 for name in names for rank in range(self._number)}

    def read_chunk(self, name: str) -> Mapping[str, Array]:
        """See ChunkSource."""
        rank, own_name = owner(name)
        if own_name != self._name:
            chunks = [
                self._saved.read_chunk(prefix(other) + own_name) for other in range(self._before)
            ]
            self._parts = divide_chunks(chunks, self._num_envs, self._number)
            self._name = own_name
        return self._parts[rank]

    def load_chunk(self, name: str, arrays: Mapping[str, Array]) -> None:
        """Never called: this memory is only written."""
        raise NotImplementedError
