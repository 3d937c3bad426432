"""The baselines: planners that turn a scene, training fires and a budget into cells to treat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from briskrl.core.types import Bools, Ints
from briskrl.envs.wildfire.behavior import azimuth
from briskrl.envs.wildfire.fuels import Reals
from briskrl.envs.wildfire.planning.evaluator import Trials
from briskrl.envs.wildfire.simulate import Fires, Simulator

CANDIDATES = 64
"""Cells that greedy tries before each pick, those with the largest downstream value."""
SEARCH_FIRES = 200_000
"""Fires that the local search burns."""
SEARCH_ROUNDS = 8
"""How often the local search recomputes downstream values."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a baseline plans with; it never gets the evaluation fires."""

    simulator: Simulator
    fires: Fires
    budget: int
    rng: np.random.Generator
    search_fires: int = SEARCH_FIRES

    @property
    def legal(self) -> Bools:
        """Cells that may be treated, (cells,)."""
        return self.simulator.scene.legal


def plan_cells(
    name: str,
    simulator: Simulator,
    fires: Fires,
    budget: int,
    rng: np.random.Generator,
    *,
    search_fires: int = SEARCH_FIRES,
) -> Ints:
    """The legal cells that a baseline treats, at most `budget`, in order."""
    legal = int(simulator.scene.legal.sum())
    task = Task(simulator, fires, min(budget, legal), rng, search_fires)
    return BASELINES[name](task)


def _best(score: Reals, task: Task) -> Ints:
    """The legal cells with the highest scores; ties go to the smaller cell index."""
    order = np.argsort(np.where(task.legal, -score, np.inf), kind="stable")
    return order[: task.budget]


def _random(task: Task) -> Ints:
    return task.rng.permutation(np.flatnonzero(task.legal))[: task.budget]


def _burn_prob(task: Task) -> Ints:
    return _best(task.simulator.burn_probability(task.fires), task)


def _dpv_static(task: Task) -> Ints:
    return _best(task.simulator.downstream(task.fires)[0], task)


def _betweenness(task: Task) -> Ints:
    return _best(task.simulator.downstream(task.fires)[1], task)


def _dpv_iterative(task: Task) -> Ints:
    treated = np.zeros(len(task.legal), np.bool_)
    cells = np.zeros(task.budget, np.int64)
    for n in range(task.budget):
        protects, _ = task.simulator.downstream(task.fires, treated)
        cells[n] = np.argmax(np.where(task.legal & ~treated, protects, -1.0))
        treated[cells[n]] = True
    return cells


def _greedy(task: Task) -> Ints:
    trials = Trials(task.simulator.scene, task.fires)
    treated = np.zeros(len(task.legal), np.bool_)
    cells = np.zeros(0, np.int64)
    while len(cells) < task.budget:
        trials.loss(cells)
        protects, _ = task.simulator.downstream(task.fires, treated)
        order = np.argsort(np.where(task.legal & ~treated, -protects, np.inf), kind="stable")
        candidates = order[: min(CANDIDATES, int((task.legal & ~treated).sum()))]
        best = candidates[np.argmin(trials.with_each(cells, candidates))]
        cells = np.append(cells, best)
        treated[best] = True
    return cells


def _local_search(task: Task) -> Ints:
    trials = Trials(task.simulator.scene, task.fires)
    starts = [_dpv_iterative(task), _greedy(task)]
    cells = min(starts, key=trials.loss)
    trials.loss(cells)
    random = task.rng.integers(2**64 - 1, size=1, dtype=np.uint64)
    for _ in range(SEARCH_ROUNDS):
        treated = np.zeros(len(task.legal), np.bool_)
        treated[cells] = True
        protects, _ = task.simulator.downstream(task.fires, treated)
        # A small weight everywhere, so that any cell can be proposed.
        weights = np.where(task.legal, protects + 0.01 * protects.max() + 1e-9, 0.0)
        trials.swap(cells, weights, random, task.search_fires // SEARCH_ROUNDS)
    return cells


def _line(task: Task) -> Ints:
    """Straight across the prevailing wind, from the center outward; then parallel lines."""
    scene = task.simulator.scene
    height, width = scene.landscape.shape
    east, north = _mean_wind(task)
    # Across the wind, one cell per step along the longer axis.
    way = np.array([east, north]) / max(abs(east), abs(north))
    side = np.array([0, 1]) if abs(way[0]) > abs(way[1]) else np.array([1, 0])
    reach = np.arange(max(height, width))
    steps = np.stack([-reach, reach], axis=1).ravel()[1:]
    beside = np.stack([reach, -reach], axis=1).ravel()[1:]
    middle = np.array([(height - 1) / 2, (width - 1) / 2])
    places = np.rint(middle + steps[None, :, None] * way + beside[:, None, None] * side)
    inside = ((places >= 0) & (places < (height, width))).all(axis=2)
    cells = (places[..., 0] * width + places[..., 1])[inside].astype(np.int64)
    cells = cells[scene.legal[cells]]
    _, first = np.unique(cells, return_index=True)
    return np.asarray(cells[np.sort(first)][: task.budget], np.int64)


def _mean_wind(task: Task) -> tuple[float, float]:
    """East and north components of the prevailing wind's direction of travel."""
    scene = task.simulator.scene
    if scene.landscape.prevailing_deg is not None:
        easts, norths = azimuth([scene.landscape.prevailing_deg], turned=2)
        speed = np.ones(1)
    else:
        easts, norths = azimuth(scene.weather.wind_from_deg, turned=2)
        speed = scene.weather.wind_kmh
    east, north = float((speed * easts).sum()), float((speed * norths).sum())
    return (east, north) if abs(east) + abs(north) > 1e-9 else (0.0, 1.0)


BASELINES: dict[str, Callable[[Task], Ints]] = {
    "random": _random,
    "burn-prob": _burn_prob,
    "dpv-static": _dpv_static,
    "dpv-iterative": _dpv_iterative,
    "betweenness": _betweenness,
    "greedy": _greedy,
    "local-search": _local_search,
    "line": _line,
}
"""All baselines by name."""
