"""Begin a run with the networks of another one."""

from __future__ import annotations

from pathlib import Path

from briskrl.algos.base import Algorithm
from briskrl.core.errors import ConfigError, InvalidStateError
from briskrl.training.storage.run_dir import RunDir

TARGET = "target."
"""Prefix of the parameters of target networks in the state of an optimizer."""


def load_networks(algo: Algorithm, run_dir: str | Path) -> None:
    """Give an algorithm the parameters of a run's policy, target networks included.

    Statistics of observations come along; the optimizer and the counters begin anew.

    Raises:
        RunFolderError: There is no run, or it has not saved a policy yet.
        ConfigError: Its policy has other networks.
    """
    saved, _ = RunDir.open(Path(run_dir)).load_policy_files()
    states = algo.state()
    found = saved.arrays
    mine = states["model"].arrays
    differ = sorted(
        name
        for name in mine.keys() | found.keys()
        if name not in mine or name not in found or mine[name].shape != found[name].shape
    )
    if differ:
        raise ConfigError(
            f"The policy of {run_dir} has other networks than this run: {', '.join(differ[:3])} "
            "differ. Its environment, algorithm and network settings must be the same."
        )
    states["model"].arrays.update(found)
    targets = states["optim"].arrays if "optim" in states else {}
    targets.update({TARGET + name: a for name, a in found.items() if TARGET + name in targets})
    try:
        algo.load_state(states)
    except InvalidStateError as error:
        raise ConfigError(f"The policy of {run_dir} cannot be used: {error}.") from error
