"""What the page may ask of a player: names of requests and the range of their numbers.

Only GET is served, so the numbers are in the query. The id of the session, which is part of the
path and cannot be guessed, keeps others from steering a game. No request changes a run folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LARGEST = 2**53
"""Larger numbers are not exact in the page."""
MOST_EPISODES = 1_000_000
REQUESTS: dict[str, dict[str, int]] = {
    "begin": {"seed": LARGEST, "episode": MOST_EPISODES},
    "want": {"epoch": LARGEST, "shown": LARGEST, "upto": LARGEST},
    "act": {"epoch": LARGEST, "index": LARGEST, "action": LARGEST},
    "duel": {},
    "move": {"direction": 3},
    "compare": {},
    "treat": {"cell": LARGEST},
    "clear": {},
    "fire": {"fire": LARGEST},
}
"""Requests with the largest value of each number; the smallest is 0."""
_WHOLE = re.compile(r"[0-9]{1,16}")
_POLICY = re.compile(r"[\w.-]{1,100}", re.ASCII)


class BadRequestError(ValueError):
    """A request with missing or impossible values; the message is for the user."""


def read_numbers(query: Mapping[str, str], expected: Mapping[str, int]) -> dict[str, int]:
    """The whole numbers of a query.

    Raises:
        BadRequestError: One is missing, not a whole number, or too large.
    """
    return {name: _whole(query, name, most) for name, most in expected.items()}


def read_policy(query: Mapping[str, str], default: str) -> str:
    """The name of a policy.

    Raises:
        BadRequestError: No policy can have this name.
    """
    name = query.get("policy", default)
    if not _POLICY.fullmatch(name):
        raise BadRequestError("policy must be newest, best or the name of a checkpoint.")
    return name


def _whole(query: Mapping[str, str], name: str, most: int) -> int:
    text = query.get(name, "")
    if not _WHOLE.fullmatch(text) or int(text) > most:
        raise BadRequestError(f"{name} must be a whole number from 0 to {most}.")
    return int(text)
