"""Every recorded episode of the original simulator, replayed without a single difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from briskrl.envs.cage2.recording import Difference, check_recording

GOLDEN = Path(__file__).parent / "golden"
FILES = {
    "traces": ("current", 13_100),
    "edge": ("current", 3_000),
    "traces_competition": ("competition", 13_100),
}
OUTPUTS = (
    *("obs", "reward", "blue_success", "red_success", "access"),
    *("sess_user_removable", "sess_user_sticky", "sess_root", "decoys", "files"),
    *("ot_running", "ot_active", "ot_armed", "ot_known", "red_ports"),
    *("known_ip", "known_host", "known_subnet", "bline_stage"),
    *("meander_scanned", "meander_exploited", "meander_escalated", "esc_options"),
)
"""Recorded arrays that are not inputs."""


def load(name: str) -> dict[str, np.ndarray]:
    return dict(np.load(GOLDEN / f"{name}.npz"))


@pytest.mark.parametrize("name", FILES)
def test_a_recorded_episode_replays_without_a_difference(name: str) -> None:
    gold = load(name)
    edition, steps = FILES[name]
    assert gold["length"].sum() == steps
    assert check_recording(gold, edition=edition) == []


@pytest.mark.parametrize("array", OUTPUTS)
def test_a_change_of_any_recorded_array_is_noticed(array: str) -> None:
    gold = {name: values[:2] for name, values in load("edge").items()}
    at = (1, 40 + (array == "obs"))
    values = gold[array].copy()
    values[at] = 1 - values[at] if array == "obs" else values[at] + 1
    assert check_recording(gold | {array: values}) == [Difference(array, 1, 40)]


def test_a_choice_that_red_would_not_make_is_noticed() -> None:
    meander = np.flatnonzero(load("edge")["red_agent"] == 1)[:3]
    gold = {name: values[meander] for name, values in load("edge").items()}
    episode = 1
    wrong = gold["red_target"].copy()
    # The first action of Meander is the discovery of the User subnet.
    wrong[episode, 0] = 0
    found = check_recording(gold | {"red_target": wrong})
    assert Difference("candidates", episode, 0) in found
    exploits = gold["red_exploit"].copy()
    step = int(np.flatnonzero(exploits[episode] >= 0)[0])
    ports = gold["red_ports"][episode, step - 1, gold["red_target"][episode, step]]
    absent = next(e for e, bit in ((7, 0), (6, 2), (3, 8)) if not ports >> bit & 1)
    exploits[episode, step] = absent
    found = check_recording(gold | {"red_exploit": exploits})
    assert Difference("options", episode, step) in found


@pytest.mark.parametrize("name", ["traces", "traces_competition"])
def test_the_other_edition_differs(name: str) -> None:
    other = {"current": "competition", "competition": "current"}[FILES[name][0]]
    assert check_recording(load(name), edition=other)
