"""The hand-written defenders do what their docstrings say."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.players import Heuristic, ReactRestore, sleep_actions

ALL = np.ones(1, np.bool_)


def shown(**hosts: str) -> np.ndarray:
    """An observation (1, 52) with the given bits of some hosts, as in User1="1101"."""
    obs = np.zeros((1, 52), np.float32)
    for host, bits in hosts.items():
        at = 4 * s.HOST_NAMES.index(host)
        obs[0, at : at + 4] = [int(bit) for bit in bits]
    return obs


def name(actions: np.ndarray) -> str:
    return s.ACTION_NAMES[actions[0]]


def test_the_sleeper_sleeps() -> None:
    assert sleep_actions(np.ones((3, 52), np.float32)).tolist() == [0, 0, 0]


def test_react_restore_restores_what_was_exploited_in_order() -> None:
    player = ReactRestore()
    player.restart(ALL)
    assert name(player(shown(User0="1101"))) == "Monitor"
    assert name(player(shown(User3="1101"))) == "Restore User3"
    two = shown(User1="1101", Enterprise1="1101")
    assert name(player(two)) == "Restore Enterprise1"
    assert name(player(shown(Op_Server0="1101", User1="0001"))) == "Restore User1"
    assert name(player(shown(User2="1000"))) == "Restore Op_Server0"
    assert name(player(shown())) == "Monitor"


@pytest.mark.parametrize(
    ("seen", "actions"),
    [
        (shown(User1="0011"), ["Restore User1"]),
        (shown(User1="0001"), ["Remove User1"]),
        (shown(User1="0010"), ["Analyse User1", "Restore User1", "Analyse User1"]),
        (shown(User1="0011", Enterprise2="0001"), ["Remove Enterprise2"]),
        (shown(User0="1111", Defender="0011"), ["DecoyTomcat Enterprise0"]),
    ],
)
def test_the_heuristic_cleans_the_first_flagged_host(seen: np.ndarray, actions: list[str]) -> None:
    player = Heuristic()
    player.restart(ALL)
    assert [name(player(seen)) for _ in actions] == actions


def test_the_heuristic_works_through_its_decoys_while_all_is_quiet() -> None:
    player = Heuristic()
    player.restart(ALL)
    first = [name(player(shown())) for _ in range(3)]
    assert first == [
        "DecoyTomcat Enterprise0",
        "DecoyHarakaSMPT Enterprise0",
        "DecoyFemitter Enterprise1",
    ]
    assert name(player(shown(User4="0001"))) == "Remove User4"
    rest = [name(player(shown())) for _ in range(15)]
    assert rest[0] == "DecoyFemitter Enterprise2"
    assert rest[12:] == ["DecoyHarakaSMPT Op_Host0", "Monitor", "Monitor"]
    player.restart(ALL)
    assert name(player(shown())) == "DecoyTomcat Enterprise0"


def test_restarting_one_network_leaves_the_others_alone() -> None:
    player = Heuristic()
    quiet = np.zeros((2, 52), np.float32)
    player(quiet)
    player.restart(np.array([True, False]))
    one, two = player(quiet)
    assert s.ACTION_NAMES[one] == "DecoyTomcat Enterprise0"
    assert s.ACTION_NAMES[two] == "DecoyHarakaSMPT Enterprise0"
