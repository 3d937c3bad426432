"""A network as text (`ansi`) and as an image (`rgb`): true state, what blue sees, last actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.ground_truth import Truth

AGENTS = ("B_line", "Meander", "Sleep")
ACTIVITY = {0: "-", 1: "Scan", 3: "Exploit"}
COMPROMISE = ("No", "Unknown", "User", "Privileged")
ACCESS = ("-", "user", "ROOT")
RESULTS = ("failed", "succeeded", "no result")
FIRST_RESTORE = s.action_index("Restore Defender")
WIDTH, HEIGHT = 40, 27
"""Size of a frame in units."""
GROUND, PANEL, INK, FAINT = (24, 30, 42), (32, 40, 56), (226, 232, 240), (120, 132, 150)
ACCESS_COLORS = ((52, 64, 84), (196, 132, 36), (200, 58, 58))
"""Fill of a host by red's true access: none, user, privileged."""
BELIEF_COLORS = ((74, 88, 112), (150, 150, 160), (255, 196, 84), (255, 110, 110))
"""Border of a host by blue's table: No, Unknown, User, Privileged."""
DECOY, BLUE, RED, SCAN = (94, 214, 170), (92, 168, 255), (255, 84, 84), (240, 220, 110)
ZONES = {"User": 0, "Enterprise": 1, "Operational": 2}
_BOX_W, _BOX_H = 11.6, 3.2


def ansi(truth: Truth, shown: int, length: int) -> str:
    """The network as text: the actions of the last step, and a table of hosts.

    Args:
        truth: The true state of one network.
        shown: The 52 bits that blue saw, as a number.
        length: Steps of an episode.
    """
    head = f"step {truth.steps[0]} of {length}   red is {AGENTS[truth.red_agent[0]]}"
    lines = [
        f"{head}   reward {reward(truth):.1f}   total {truth.returns[0]:.1f}",
        *last_actions(truth),
        "",
    ]
    columns = ("host", "seen", "table says", "red has", "files", "decoys", "red knows")
    rows = [columns, *(_host(truth, shown, index) for index in _by_zone())]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", _service(truth)])


def last_actions(truth: Truth) -> list[str]:
    """The last actions of blue, green and red, one line each."""
    if truth.blue_action[0] < 0:
        return ["blue   -", "green  -", "red    -"]
    blue = f"{s.ACTION_NAMES[truth.blue_action[0]]} ({RESULTS[truth.blue_success[0]]})"
    seen = truth.green_target[0]
    green = f"scans {s.HOST_NAMES[seen]}" if seen >= 0 else "-"
    return [f"blue   {blue}", f"green  {green}", f"red    {red_action(truth)}"]


def red_action(truth: Truth) -> str:
    """Red's last action with its result."""
    kind, target = int(truth.red_action[0]), int(truth.red_target[0])
    if kind == 0:
        return "Sleep"
    names: Sequence[str] = s.SUBNETS if kind == 1 else s.HOST_NAMES
    action = f"{s.RED_KINDS[kind]} {names[target]}"
    notes = [RESULTS[truth.red_success[0]]]
    if kind == 3:
        exploit = int(truth.red_exploit[0])
        notes.insert(0, s.EXPLOIT_NAMES[exploit] if exploit >= 0 else "no way in known")
        if truth.detected[0] >= 0:
            notes.append("shell seen" if truth.detected[0] else "shell unseen")
    return f"{action} ({', '.join(notes)})"


def reward(truth: Truth) -> float:
    """The reward of the last step, computed from the state."""
    cost = sum(
        host.confidentiality
        for host, sessions in zip(s.HOSTS, truth.sess_root[0], strict=True)
        if sessions
    )
    cost += 10 * (1 - int(truth.ot_running[0])) + int(truth.blue_action[0] >= FIRST_RESTORE)
    return 0.0 - round(cost, 1)


def activity_of(shown: int, host: int) -> int:
    """The two activity bits of a host: 0 None, 1 Scan, 3 Exploit."""
    return shown >> 4 * host & 3


def decoys_of(truth: Truth, host: int) -> list[str]:
    """Names of the decoys that are up on a host, with their number if there are several."""
    counts = zip(s.DECOY_NAMES, truth.decoys[0, host], strict=True)
    return [name if count == 1 else f"{name} x{count}" for name, count in counts if count]


def _by_zone() -> list[int]:
    zones = ("User", "Enterprise", "Operational")
    return sorted(range(s.NUM_HOSTS), key=lambda index: zones.index(s.HOSTS[index].subnet))


def _host(truth: Truth, shown: int, index: int) -> tuple[str, ...]:
    files = int(truth.files[0, index])
    sessions = [
        f"{count} {name}"
        for name, count in (
            ("removable", truth.sess_user_removable[0, index]),
            ("sticky", truth.sess_user_sticky[0, index]),
        )
        if count
    ]
    access = ACCESS[truth.access[0, index]]
    known = [
        name
        for name, mask in (("address", truth.known_ip[0]), ("name", truth.known_host[0]))
        if mask >> index & 1
    ]
    if truth.red_ports[0, index] >> 15:
        known.append("ports")
    return (
        s.HOST_NAMES[index],
        ACTIVITY[activity_of(shown, index)],
        COMPROMISE[truth.compromise[0, index]],
        f"{access} ({', '.join(sessions)})" if sessions else access,
        "+".join(name for bit, name in ((1, "exploit"), (2, "escalation")) if files & bit) or "-",
        " ".join(decoys_of(truth, index)) or "-",
        " ".join(known) or "-",
    )


def _service(truth: Truth) -> str:
    state = "running" if truth.ot_running[0] else "DOWN: 10 per step until Op_Server0 is restored"
    harm = "can be stopped" if truth.ot_armed[0] else "cannot be stopped"
    return f"operational service {state}, {harm}"


def rgb(truth: Truth, shown: int, length: int, unit: int = 16) -> NDArray[np.uint8]:
    """One network as an image (27*unit, 40*unit, 3).

    Args:
        truth: The true state of the network.
        shown: The 52 bits that blue saw, as a number.
        length: Steps of an episode.
        unit: Pixels per unit.
    """
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (WIDTH * unit, HEIGHT * unit), GROUND)
    brush = _Brush(ImageDraw.Draw(image), unit)
    for zone, column in ZONES.items():
        brush.panel(0.5 + 13.2 * column, 2.2, 12.6, 19.4, zone)
    blue, red = last_targets(truth)
    for index, place in _places().items():
        _draw_host(brush, truth, shown, index, place, at_work=(index == blue, index == red))
    _draw_text(brush, truth, length)
    return np.asarray(image, np.uint8)


class _Brush:
    """Draws in units instead of pixels."""

    def __init__(self, draw: Any, unit: int) -> None:
        from PIL import ImageFont

        self._draw, self._unit = draw, unit
        self._font = ImageFont.load_default(size=max(6, unit * 0.85))

    def text(self, x: float, y: float, text: str, color: tuple[int, int, int]) -> None:
        self._draw.text((x * self._unit, y * self._unit), text, color, font=self._font)

    def box(
        self,
        place: tuple[float, float, float, float],
        fill: tuple[int, int, int],
        frame: tuple[int, int, int] | None = None,
        width: float = 0.2,
    ) -> None:
        x, y, w, h = (number * self._unit for number in place)
        thick = max(1, round(width * self._unit))
        self._draw.rounded_rectangle(
            (x, y, x + w, y + h), self._unit * 0.4, fill, frame, thick if frame else 0
        )

    def disc(self, x: float, y: float, radius: float, color: tuple[int, int, int]) -> None:
        unit = self._unit
        box = ((x - radius) * unit, (y - radius) * unit, (x + radius) * unit, (y + radius) * unit)
        self._draw.ellipse(box, color)

    def panel(self, x: float, y: float, w: float, h: float, name: str) -> None:
        self.box((x, y, w, h), PANEL)
        self.text(x + 0.5, y + 0.2, name, FAINT)


def _places() -> dict[int, tuple[float, float]]:
    """The upper left corner of every host."""
    filled = dict.fromkeys(ZONES, 0)
    places = {}
    for index, host in enumerate(s.HOSTS):
        row = filled[host.subnet]
        filled[host.subnet] += 1
        places[index] = (1.0 + 13.2 * ZONES[host.subnet], 3.8 + 3.5 * row)
    return places


def _draw_host(
    brush: _Brush,
    truth: Truth,
    shown: int,
    index: int,
    place: tuple[float, float],
    *,
    at_work: tuple[bool, bool],
) -> None:
    x, y = place
    frame = BELIEF_COLORS[truth.compromise[0, index]]
    brush.box((x, y, _BOX_W, _BOX_H), ACCESS_COLORS[truth.access[0, index]], frame)
    brush.text(x + 0.5, y + 0.3, s.HOST_NAMES[index], INK)
    for number in range(min(8, int(truth.decoys[0, index].sum()))):
        brush.disc(x + 0.9 + 0.8 * number, y + 2.3, 0.3, DECOY)
    seen = activity_of(shown, index)
    if seen:
        brush.text(x + 7.6, y + 1.6, ACTIVITY[seen], SCAN)
    for at, (acts, color) in enumerate(zip(at_work, (BLUE, RED), strict=True)):
        if acts:
            brush.disc(x + _BOX_W - 0.8 - 1.1 * at, y + 0.8, 0.45, color)


def last_targets(truth: Truth) -> tuple[int, int]:
    """Hosts that blue and red acted on in the last step; -1 for none."""
    action = int(truth.blue_action[0])
    blue = (action - 2) % s.NUM_HOSTS if action >= 2 else -1
    red = int(truth.red_target[0]) if truth.red_action[0] >= 2 else -1
    return blue, red


def _draw_text(brush: _Brush, truth: Truth, length: int) -> None:
    agent = AGENTS[truth.red_agent[0]]
    head = f"step {truth.steps[0]} of {length}   against {agent}   total {truth.returns[0]:.1f}"
    brush.text(0.8, 0.6, head, INK)
    blue, green, red = last_actions(truth)
    brush.text(0.8, 22.2, blue, BLUE)
    brush.text(0.8, 23.5, red, RED)
    service = "running" if truth.ot_running[0] else "DOWN"
    line = f"{green}   reward {reward(truth):.1f}   operational service {service}"
    brush.text(0.8, 24.8, line, INK)
