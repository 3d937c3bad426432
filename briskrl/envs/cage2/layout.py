"""Memory layout of a network, and settings and scenario as kernels read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.config import Cage2Config
from briskrl.envs.cage2.kernels import layout as k
from briskrl.envs.cage2.kernels.incidents import MOST_CATEGORIES

_CACHE_LINE_WORDS = 8
_BITS = 4 * s.NUM_HOSTS
_LEVELS = {"user": k.USER_LEVEL, "root": k.ROOT_LEVEL, None: k.NO_ACCOUNT}
Shorts = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes that follow from the settings: a row of memory and the parts of an observation."""

    config: Cage2Config

    @property
    def final(self) -> int:
        """First word of a row for the decoys of the last ended episode."""
        return k.ROW_SCALARS + self.config.frames - 1

    @property
    def row_words(self) -> int:
        """Words of a network, a whole number of cache lines."""
        words = self.final + (4 if self.config.mask != "none" else 0)
        return -(-words // _CACHE_LINE_WORDS) * _CACHE_LINE_WORDS

    def parts(self) -> dict[str, slice]:
        """Parts of an observation by name, as slices; only those that exist."""
        config = self.config
        decoys = {"none": 0, "count": s.NUM_HOSTS, "full": s.NUM_HOSTS * len(s.DECOYS)}
        sizes = {
            "frames": _BITS * config.frames,
            "scans": s.NUM_HOSTS * config.scan_memory,
            "decoys": decoys[config.decoy_memory],
            "events": s.NUM_HOSTS * config.event_memory,
            "restores": s.NUM_HOSTS * config.restore_memory,
            "clock": int(config.clock),
        }
        places, at = {}, 0
        for name, size in sizes.items():
            if size:
                places[name] = slice(at, at + size)
            at += size
        return places

    @property
    def obs_size(self) -> int:
        """Numbers of an observation."""
        return max(int(part.stop) for part in self.parts().values())

    def is_fixable(self, host: str) -> bool:
        """Whether an action can end red's presence on a host for good; not on User0, its home."""
        return host != "User0" and (self.config.actions == "full" or host in s.REDUCED_HOSTS)

    @property
    def num_actions(self) -> int:
        """Number of blue actions."""
        return len(s.REDUCED_NAMES if self.config.actions == "reduced" else s.ACTION_NAMES)


def params_of(layout: Layout) -> NDArray[np.int64]:
    """The settings and the scenario's tables as the array that kernels read."""
    config, parts = layout.config, layout.parts()
    params = np.zeros(-(-k.T_END // 4), np.int64)
    reds = {name: at for at, name in enumerate((*s.REDS, "mixed"))}
    masks = {"none": k.MASK_NONE, "legal": k.MASK_LEGAL, "useful": k.MASK_USEFUL}
    bline, meander, sleep = config.red_weights
    start = {name: part.start for name, part in parts.items()}
    for at, number in {
        k.R_ROW: layout.row_words,
        k.R_RED: reds[config.red],
        k.R_COMPETITION: config.edition == "competition",
        k.R_WRAPPER2: config.view == "wrapper2",
        k.R_GREEN: config.green,
        k.R_LENGTH: config.length,
        k.R_TERMINAL: config.terminal,
        k.R_REDUCED: config.actions == "reduced",
        k.R_FRAMES: config.frames,
        k.R_SCANS_AT: start.get("scans", 0),
        k.R_DECOYS_AT: start.get("decoys", 0),
        k.R_DECOY_BITS: config.decoy_memory == "full",
        k.R_EVENTS_AT: start.get("events", 0),
        k.R_RESTORES_AT: start.get("restores", 0),
        k.R_CLOCK_AT: start.get("clock", 0),
        k.R_MASK: masks[config.mask],
        k.R_FINAL: layout.final,
        k.R_WEIGHT_BLINE: bline,
        k.R_WEIGHT_MEANDER: meander,
        k.R_WEIGHT_TOTAL: bline + meander + sleep,
        k.R_MORE: layout.obs_size > _BITS,
        k.R_RESPONSE: round(config.response_prob * k.ALWAYS),
        k.R_COMPROMISED: config.start_compromised,
        k.R_FIXABLE: _mask(map(layout.is_fixable, s.HOST_NAMES)),
    }.items():
        params[at] = number
    # Settings and tables do not overlap.
    params += _tables()
    return params


@cache
def _tables() -> NDArray[np.int64]:
    """The scenario's tables in an array without settings; made once, because it takes long."""
    tables = np.zeros(-(-k.T_END // 4), np.int64)
    _write_tables(tables.view(np.int16))
    return tables


def track_hosts(
    params: NDArray[np.int64], categories: Sequence[Sequence[str]], *, first_word: int
) -> None:
    """Set in `params` that incidents of these categories of hosts are noted from a word on."""
    assert len(categories) <= MOST_CATEGORIES
    t = params.view(np.int16)
    t[k.T_CATEGORY : k.T_CATEGORY + s.NUM_HOSTS] = -1
    for category, hosts in enumerate(categories):
        t[k.T_MEMBERS + category] = _mask(name in hosts for name in s.HOST_NAMES)
        for host in hosts:
            t[k.T_CATEGORY + s.HOST_NAMES.index(host)] = category
    params[k.R_INCIDENTS] = first_word


def _write_tables(t: Shorts) -> None:
    for index, host in enumerate(s.HOSTS):
        _write_host(t[k.T_HOSTS + k.H_SIZE * index :][: k.H_SIZE], host)
    for at, subnet in enumerate(s.SUBNETS):
        t[k.T_SUBNETS + at] = _mask(host.subnet == subnet for host in s.HOSTS)
    for at, exploit in enumerate(s.EXPLOITS):
        t[k.T_TRAPS + at] = _mask(decoy.traps == exploit.name for decoy in s.DECOYS)
        t[k.T_XPORTS + at] = _ports([exploit.port])
    _put(t, k.T_GREEN, map(s.HOST_NAMES.index, s.GREEN_TARGETS))
    for at, (kind, target) in enumerate(s.B_LINE):
        t[k.T_LINE + 2 * at] = s.RED_KINDS.index(kind)
        t[k.T_LINE + 2 * at + 1] = _stage_target(kind, target)
    _put(t, k.T_JUMP, s.JUMP)
    t[k.T_USERS] = _mask(name in s.B_LINE_USERS for name in s.HOST_NAMES)
    _write_reduced(t)
    for up in range(256):
        opened = [decoy.opens for at, decoy in enumerate(s.DECOYS) if up >> at & 1]
        t[k.T_OPENS + up] = _ports(opened)
        t[k.T_BLOCKS + up] = _mask(decoy.checks in opened for decoy in s.DECOYS)
    weights = [exploit.weight for exploit in s.EXPLOITS]
    for options in range(1, 256):
        members = [at for at in range(len(weights)) if options >> at & 1]
        t[k.T_BEST + options] = max(members, key=weights.__getitem__)
    for ports in range(4096):
        t[k.T_OPTIONS + ports] = _mask(_is_option(exploit, ports) for exploit in s.EXPLOITS)


def _write_host(row: Shorts, host: s.Host) -> None:
    ports = [service.port for service in host.services]
    row[k.H_PORTS] = _ports(ports)
    row[k.H_SOCKETS] = len(ports)
    row[k.H_COST] = round(10 * host.confidentiality)
    row[k.H_LINK] = _mask(name == host.link for name in s.HOST_NAMES)
    row[k.H_SUBNET] = s.SUBNETS.index(host.subnet)
    fitting = [
        decoy.system in (None, host.system) and decoy.checks not in ports for decoy in s.DECOYS
    ]
    row[k.H_FITS] = _mask(fitting)
    row[k.H_COUNT] = sum(fitting)
    listed = s.BEST_DECOYS.get(host.name, ())
    row[k.H_LISTED] = _mask(name in listed for name in s.DECOY_NAMES)
    for at, exploit in enumerate(s.EXPLOITS):
        found = [
            _LEVELS[service.level]
            for service in host.services
            if (service.port, service.kind) == (exploit.port, exploit.kind)
        ]
        row[k.H_FINDS + at] = found[0] if found else k.NO_SERVICE


def _write_reduced(t: Shorts) -> None:
    for at, name in enumerate(s.REDUCED_NAMES):
        kind, _, host = name.partition(" ")
        place = -1 - s.HOST_NAMES.index(host) if kind == "Decoy" else s.action_index(name)
        t[k.T_REDUCED + at] = place
    t[k.T_ORDER : k.T_PLACES + s.NUM_HOSTS] = -1
    for host, decoys in s.BEST_DECOYS.items():
        start = k.T_ORDER + 8 * s.HOST_NAMES.index(host)
        _put(t, start, map(s.DECOY_NAMES.index, decoys))
        t[k.T_PLACES + s.HOST_NAMES.index(host)] = s.REDUCED_NAMES.index(f"Decoy {host}")


def _stage_target(kind: str, target: str) -> int:
    if target in ("U", "E"):
        return k.TARGET_USER if target == "U" else k.TARGET_LINKED
    names: Sequence[str] = s.SUBNETS if kind == "DiscoverRemoteSystems" else s.HOST_NAMES
    return names.index(target)


def _is_option(exploit: s.Exploit, ports: int) -> bool:
    some = _ports(exploit.any_of)
    return bool(ports & _ports([exploit.port])) and (not some or bool(ports & some))


def _ports(ports: Iterable[int]) -> int:
    members = set(ports)
    return _mask(port in members for port in s.PORTS)


def _mask(members: Iterable[bool]) -> int:
    return sum(1 << at for at, member in enumerate(members) if member)


def _put(t: Shorts, at: int, numbers: Iterable[int]) -> None:
    values = list(numbers)
    t[at : at + len(values)] = values
