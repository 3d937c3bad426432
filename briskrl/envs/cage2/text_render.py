"""A network as text: who did what in the last step, what blue saw of it, and what is true."""

from __future__ import annotations

from collections.abc import Sequence

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.ground_truth import Truth

AGENTS = ("B_line", "Meander", "Sleep")
ACTIVITY = {0: "-", 1: "Scan", 3: "Exploit"}
COMPROMISE = ("No", "Unknown", "User", "Privileged")
ACCESS = ("-", "user", "ROOT")
RESULTS = ("failed", "succeeded", "no result")
FIRST_RESTORE = s.action_index("Restore Defender")


def board(truth: Truth, shown: int, length: int) -> str:
    """The network as a table of hosts below the story of the last step.

    Args:
        truth: The true state of one network.
        shown: The 52 bits that blue saw, as a number.
        length: Steps of an episode.
    """
    head = f"step {truth.steps[0]} of {length}   red is {AGENTS[truth.red_agent[0]]}"
    lines = [
        f"{head}   reward {reward(truth):.1f}   total {truth.returns[0]:.1f}",
        *story(truth),
        "",
    ]
    columns = ("host", "seen", "table says", "red has", "files", "decoys", "red knows")
    rows = [columns, *(_host(truth, shown, index) for index in _by_zone())]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append("  ".join(cells).rstrip())
    return "\n".join([*lines, "", _service(truth)])


def story(truth: Truth) -> list[str]:
    """What blue, green and red did in the last step, one line each."""
    if truth.blue_action[0] < 0:
        return ["blue   -", "green  -", "red    -"]
    blue = f"{s.ACTION_NAMES[truth.blue_action[0]]} ({RESULTS[truth.blue_success[0]]})"
    seen = truth.green_target[0]
    green = f"scans {s.HOST_NAMES[seen]}" if seen >= 0 else "-"
    return [f"blue   {blue}", f"green  {green}", f"red    {red_action(truth)}"]


def red_action(truth: Truth) -> str:
    """What red did, in words."""
    kind, target = int(truth.red_action[0]), int(truth.red_target[0])
    if kind == 0:
        return "Sleep"
    names: Sequence[str] = s.SUBNETS if kind == 1 else s.HOST_NAMES
    told = f"{s.RED_KINDS[kind]} {names[target]}"
    notes = [RESULTS[truth.red_success[0]]]
    if kind == 3:
        exploit = int(truth.red_exploit[0])
        notes.insert(0, s.EXPLOIT_NAMES[exploit] if exploit >= 0 else "no way in known")
        if truth.detected[0] >= 0:
            notes.append("shell seen" if truth.detected[0] else "shell unseen")
    return f"{told} ({', '.join(notes)})"


def reward(truth: Truth) -> float:
    """The reward of the last step, which follows from the state it left."""
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
    harm = "can be stopped" if truth.ot_armed[0] else "cannot be stopped any more"
    return f"operational service {state}, {harm}"
