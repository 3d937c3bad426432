"""Fire spread in plain Python: Dijkstra with a heap."""

from __future__ import annotations

import heapq
from fractions import Fraction
from functools import cache

import numpy as np

from briskrl.envs.wildfire.directions import MOVES
from briskrl.envs.wildfire.travel_times import inverse_rates


@cache
def crossed(move: tuple[int, int]) -> tuple[list, list]:
    """Cells under the segment from (0, 0), found by walking it in tiny exact steps; and corners."""
    parts, corner = [], []
    steps = 240
    for i in range(steps):
        at = Fraction(2 * i + 1, 2 * steps)
        cell = (round(at * move[0]), round(at * move[1]))
        if not parts or parts[-1][0] != cell:
            if parts:
                (r, c), _ = parts[-1]
                if r != cell[0] and c != cell[1]:
                    corner = [(r, cell[1]), (cell[0], c)]
            parts.append([cell, 0])
        parts[-1][1] += 1
    return [(cell, Fraction(n, steps)) for cell, n in parts], corner


def burn(scene, start: int, weather: int, treated: np.ndarray, *, leaky: bool = False):
    """Arrival minutes (H, W), NaN where the fire does not come."""
    landscape, count = scene.landscape, scene.compass.num_directions
    height, width = landscape.shape
    rates = inverse_rates(landscape, scene.tables.head, scene.compass)
    inverse = rates[weather].reshape(count, height, width)
    shut = ~landscape.burnable | treated.reshape(height, width)
    limit = np.float32(scene.weather.duration_min[weather])
    arrival = np.full((height, width), np.nan, np.float32)

    def closed(cell):
        inside = 0 <= cell[0] < height and 0 <= cell[1] < width
        return not inside or bool(shut[cell])

    def edge(cell, k):
        parts, corner = crossed(MOVES[k])
        on_the_way = [(cell[0] + row, cell[1] + col) for (row, col), _ in parts]
        beside = [(cell[0] + row, cell[1] + col) for row, col in corner]
        if any(closed(part) for part in on_the_way):
            return None
        if beside and not leaky and all(closed(part) for part in beside):
            return None
        mean = 0.0
        for part, (_, share) in zip(on_the_way, parts, strict=True):
            mean += float(share) * inverse[k][part]
        return np.float32(mean * (float(np.hypot(*MOVES[k])) * landscape.cell_m))

    origin = divmod(start, width)
    if shut[origin]:
        return arrival
    arrival[origin] = 0
    heap = [(np.float32(0), origin)]
    while heap:
        time, cell = heapq.heappop(heap)
        if time > arrival[cell]:
            continue
        for k in range(count):
            minutes = edge(cell, k)
            if minutes is None:
                continue
            to = (cell[0] + MOVES[k][0], cell[1] + MOVES[k][1])
            new = np.float32(time + minutes)
            if new <= limit and not new >= arrival[to]:
                arrival[to] = new
                heapq.heappush(heap, (new, to))
    return arrival
