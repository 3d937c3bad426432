"""What the loss of an actor means, from what Ray says about it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from briskrl import __version__

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Loss:
    """Why an actor sends nothing any more."""

    text: str
    """A clause such as "was lost with its node", or a sentence if it is hopeless."""
    hopeless: bool = False
    """Whether another actor would fare no better."""


def is_unavailable(error: Exception) -> bool:
    """Whether Ray does not know yet what has happened."""
    from ray.exceptions import ActorUnavailableError

    return isinstance(error, ActorUnavailableError)


def describe_loss(error: Exception) -> Loss:
    """What an error of a call of an actor means."""
    text = " ".join(str(error).split())
    if "ModuleNotFoundError" in text or "ImportError" in text:
        cause = re.findall(r"(?:ModuleNotFound|Import)Error: .*?(?=$| The above| Traceback)", text)
        return Loss(
            f"A node cannot import briskrl as it is here ({cause[-1] if cause else text}). Install "
            f"briskrl {__version__} on every node: pip install 'briskrl[ray]=={__version__}'",
            hopeless=True,
        )
    if "node has died" in text or "node is dead" in text or "NodeDied" in text:
        return Loss("was lost with its node")
    if "OutOfMemory" in text or "memory monitor" in text:
        return Loss("was killed by Ray, because the memory of its node was nearly full")
    return Loss(f"was lost ({text[:_LONGEST]})")
