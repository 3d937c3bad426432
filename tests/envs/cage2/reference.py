"""One CAGE-2 network in plain Python, written from the rules alone and slow.

It shares no table and no code with the compiled one. The caller makes every random choice, and can
ask for the options.
"""

from __future__ import annotations

from dataclasses import dataclass, field

NAMES = (
    *("Defender", "Enterprise0", "Enterprise1", "Enterprise2"),
    *("Op_Host0", "Op_Host1", "Op_Host2", "Op_Server0"),
    *("User0", "User1", "User2", "User3", "User4"),
)
DEFENDER, OP_SERVER, USER0 = 0, 7, 8
SUBNETS = {0: [1, 2, 3, 0], 1: [7, 4, 5, 6], 2: [8, 9, 10, 11, 12]}
WINDOWS = {2, 3, 8, 9, 10}
OFFICE_PORTS = [22, 135, 3389, 445, 139, 80, 443]
GENUINE = {
    0: [22, 53, 53, 68],
    1: [22],
    2: OFFICE_PORTS,
    3: OFFICE_PORTS,
    4: [22],
    5: [22],
    6: [22],
    7: [22],
    8: [22, 21],
    9: [22, 21],
    10: [445, 139, 135, 3389],
    11: [80, 3389, 443, 25],
    12: [22, 80, 3390, 443, 25],
}
LINKED = {3: 7, 9: 2, 10: 2, 11: 1, 12: 1}
VALUE = {0: 1, 1: 10, 2: 10, 3: 10, 4: 1, 5: 1, 6: 1, 7: 10, 8: 0, 9: 1, 10: 1, 11: 1, 12: 1}
"""Confidentiality in tenths."""

DECOY_CHECKS = [80, 21, 25, 139, 22, 3389, 443, 21]
DECOY_OPENS = [80, 21, 25, 139, 22, 3389, 443, 80]
DECOY_WINDOWS, DECOY_LINUX = {1, 3, 5}, {2, 7}
TRAPPED_BY = {0: [3], 1: [5], 2: [0, 7], 3: [6], 4: [4], 5: [], 6: [2], 7: [1]}

EXPLOIT_PORT = [139, 3389, 80, 443, 22, 3390, 25, 21]
WEIGHT = [2, 1, 3, 4, 0.1, 5, 6, 7]
SSH, SQL, HARAKA = 4, 5, 6
ROOT_AT_ONCE = {7: [8, 9], 0: [10], 1: [2, 3], 5: [12], 6: [11, 12]}
USER_ONLY = {2: [2, 3, 11, 12], 3: [2, 3, 11, 12], 1: [10]}
PORT_BITS = [21, 22, 25, 53, 68, 80, 135, 139, 443, 445, 3389, 3390]

SLEEP, DISCOVER, SCAN, EXPLOIT, ESCALATE, IMPACT = range(6)
TRUE, FALSE, UNKNOWN = 1, 0, 2
JUMP = [0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13]
NO, UNCLEAR, USER, PRIVILEGED = range(4)


@dataclass
class Host:
    """State of one host."""

    removable: int = 0
    sticky: int = 0
    root: int = 0
    decoys: list[int] = field(default_factory=lambda: [0] * 8)
    files: int = 0
    ports: set[int] | None = None
    comp: int = NO
    restored: bool = False


@dataclass
class Chance:
    """Random choices in a step; those that do not apply are ignored."""

    red_action: int
    red_target: int
    exploit: int = -1
    detected: int = 1
    esc_pick: int = 1
    green: int = -1


@dataclass
class ReferenceNetwork:
    """One network with its attacker."""

    agent: str
    competition: bool = False
    wrapper2: bool = False
    hosts: list[Host] = field(default_factory=lambda: [Host() for _ in NAMES])
    ot_running: int = 1
    ot_active: int = 1
    ot_armed: int = 1
    ot_known: int = 0
    known_ip: set[int] = field(default_factory=lambda: {USER0})
    known_host: set[int] = field(default_factory=lambda: {USER0})
    known_subnet: set[int] = field(default_factory=lambda: {2})
    stage: int = -1
    user: int = -1
    issued: bool = False
    empty_scan: bool = False
    tried: set[int] = field(default_factory=set)
    scanned: set[int] = field(default_factory=set)
    exploited: set[int] = field(default_factory=set)
    escalated: set[int] = field(default_factory=set)
    mapped: set[int] = field(default_factory=set)
    last: tuple[int, int] = (SLEEP, -1)
    result: int = UNKNOWN
    blue_success: int = UNKNOWN
    activity: list[int] = field(default_factory=lambda: [0] * 13)
    seen_scans: set[int] = field(default_factory=set)
    last_scans: set[int] = field(default_factory=set)

    def sockets(self, host: int) -> list[int]:
        """Ports of all sockets that listen, one entry each."""
        decoys = self.hosts[host].decoys
        opened = [DECOY_OPENS[d] for d in range(8) for _ in range(decoys[d])]
        return GENUINE[host] + opened

    def holds(self, host: int) -> bool:
        state = self.hosts[host]
        return host == USER0 or state.removable + state.sticky + state.root > 0

    def reaches(self, host: int) -> bool:
        return host not in SUBNETS[1] or any(self.holds(e) for e in (1, 2, 3))

    def think(self) -> tuple[int, list[int]]:
        """Let red process its last result; returns the kind of its next action and its options."""
        if self.agent == "bline":
            return self._think_bline()
        if self.agent == "meander":
            return self._think_meander()
        return SLEEP, []

    def _think_bline(self) -> tuple[int, list[int]]:
        if self.stage < 0:
            self.stage = 0
        else:
            self._advance()
            if self.stage == 12 and not self.issued and self.empty_scan:
                self.stage = 0
                self._advance()
        if self.stage == 12:
            self.issued = True
        first = [self.user] if self.user >= 0 else [9, 10, 11, 12]
        second = [LINKED[self.user]] if self.user >= 0 else []
        return {
            0: (DISCOVER, [2]),
            1: (SCAN, first),
            2: (EXPLOIT, first),
            3: (ESCALATE, first),
            4: (SCAN, second),
            5: (EXPLOIT, second),
            6: (ESCALATE, second),
            7: (DISCOVER, [0]),
            8: (SCAN, [3]),
            9: (EXPLOIT, [3]),
            10: (ESCALATE, [3]),
            11: (SCAN, [7]),
            12: (EXPLOIT, [7]),
            13: (ESCALATE, [7]),
            14: (IMPACT, [7]),
        }[self.stage]

    def _advance(self) -> None:
        self.stage = min(14, self.stage + 1) if self.result == TRUE else JUMP[self.stage]

    def _think_meander(self) -> tuple[int, list[int]]:
        kind, target = self.last
        if kind == EXPLOIT:
            if self.result == TRUE:
                self.mapped.add(target)
            else:
                self.exploited.discard(target)
                for group in ({4, 5, 6, 7}, {1, 2, 3}):
                    lost = self.escalated & group
                    if lost:
                        self.escalated -= lost
                        self.exploited -= lost
                        break
        elif kind in (ESCALATE, IMPACT) and self.result == FALSE:
            self.escalated.discard(target)
            if target in self.mapped:
                self.exploited.discard(target)
        if OP_SERVER in self.escalated:
            return IMPACT, [OP_SERVER]
        for subnet in sorted(self.known_subnet):
            if subnet not in self.tried:
                return DISCOVER, [subnet]
        unscanned = sorted(self.known_ip - self.scanned)
        if unscanned:
            return SCAN, unscanned
        lost = self.mapped - self.exploited
        names = sorted(self.known_host - self.escalated - lost)
        if names:
            return ESCALATE, names
        return EXPLOIT, sorted(self.known_ip - self.exploited)

    def commit(self, kind: int, target: int) -> None:
        """Record the action that red has chosen."""
        if self.agent == "bline" and self.stage == 1:
            self.user = target
        if self.agent == "meander":
            sets = {DISCOVER: self.tried, SCAN: self.scanned, EXPLOIT: self.exploited}
            sets[ESCALATE] = self.escalated
            if kind in sets:
                sets[kind].add(target)
        self.last = (kind, target)

    def options(self, host: int) -> list[int]:
        """Exploits that red's memory of a host suggests."""
        ports = self.hosts[host].ports or set()
        found = [e for e in range(8) if EXPLOIT_PORT[e] in ports]
        if SQL in found and not ports & {80, 443}:
            found.remove(SQL)
        return found

    def step(self, blue: int, chance: Chance) -> int:
        """Play one step; returns its reward in tenths. Red's choice must have been committed."""
        events: dict[int, list[int]] = {}
        placed, found = self._blue(blue)
        if chance.green >= 0:
            events.setdefault(chance.green, []).extend(self.sockets(chance.green))
        self.result = self._red(chance, events)
        tenths = -sum(VALUE[h] for h in range(13) if self.hosts[h].root > 0)
        tenths -= 100 * (1 - self.ot_running) + 10 * (blue >= 132)
        self._watch(events, placed)
        if found >= 0:
            self.hosts[found].comp = PRIVILEGED
        return tenths

    def _blue(self, action: int) -> tuple[int, int]:
        """Host that got a decoy and host where analysis found a file, or -1."""
        self.blue_success = UNKNOWN if action == 0 else TRUE
        if action < 2:
            return -1, -1
        kind, host = divmod(action - 2, 13)
        state = self.hosts[host]
        if kind == 0:
            return -1, host if state.files else -1
        if kind == 1:
            state.removable = 0
            state.comp = NO if state.comp == NO else UNCLEAR
            return -1, -1
        if kind == 10:
            self.hosts[host] = Host(ports=state.ports, restored=True)
            if host == OP_SERVER:
                self.ot_running, self.ot_active, self.ot_armed = 1, 1, 0
            return -1, -1
        decoy = kind - 2
        wrong_os = decoy in (DECOY_LINUX if host in WINDOWS else DECOY_WINDOWS)
        if wrong_os or DECOY_CHECKS[decoy] in self.sockets(host):
            self.blue_success = FALSE
            return -1, -1
        state.decoys[decoy] += 1
        return host, -1

    def _red(self, chance: Chance, events: dict[int, list[int]]) -> int:
        kind, target = chance.red_action, chance.red_target
        self.empty_scan = False
        if kind == DISCOVER:
            if not self.reaches(SUBNETS[target][0]):
                return FALSE
            self.known_subnet.add(target)
            self.known_ip |= set(SUBNETS[target])
            return TRUE
        if kind == SCAN:
            self._scan(target, events)
            return TRUE
        if kind == EXPLOIT:
            return self._exploit(target, chance, events)
        if kind == ESCALATE:
            return self._escalate(target, chance)
        if kind == IMPACT:
            if not (self.holds(OP_SERVER) and self.ot_known):
                return FALSE
            if self.ot_active and self.ot_armed:
                self.ot_running = 0
            self.ot_active = 0
            return TRUE
        return UNKNOWN

    def _scan(self, host: int, events: dict[int, list[int]]) -> None:
        if not self.reaches(host):
            self.empty_scan = True
            return
        ports = self.sockets(host)
        known = self.hosts[host].ports or set()
        self.hosts[host].ports = set(ports) | (known if self.competition else set())
        events.setdefault(host, []).extend(ports)

    def _exploit(self, host: int, chance: Chance, events: dict[int, list[int]]) -> int:
        state, exploit = self.hosts[host], chance.exploit
        if not self.options(host) or not self.reaches(host):
            return FALSE
        log = events.setdefault(host, [])
        port = EXPLOIT_PORT[exploit]
        trapped = any(state.decoys[d] for d in TRAPPED_BY[exploit])
        if exploit == SSH:
            if 22 not in self.sockets(host):
                return FALSE
            log.extend([22] * 10)
            if host == DEFENDER or 22 not in GENUINE[host]:
                return FALSE
            log.append(22)
            state.sticky += 1
            self.known_host.add(host)
            return TRUE
        root = host in ROOT_AT_ONCE.get(exploit, [])
        if not root and host not in USER_ONLY.get(exploit, []):
            log.extend([port, port] if trapped else [])
            return FALSE
        log.append(port)
        if exploit == HARAKA and self.competition and state.restored:
            return FALSE
        state.files |= 1
        if chance.detected:
            log.append(4444)
        if root:
            state.root += 1
        elif chance.detected:
            state.removable += 1
        else:
            state.sticky += 1
        self.known_host.add(host)
        return TRUE

    def _escalate(self, host: int, chance: Chance) -> int:
        state = self.hosts[host]
        if not self.holds(host):
            return FALSE
        if host != USER0 and not state.root:
            state.root += 1
            state.files |= 2
            if chance.esc_pick:
                state.removable -= 1
            else:
                state.sticky -= 1
        self.known_ip.add(host)
        self.known_subnet.add(next(s for s, hosts in SUBNETS.items() if host in hosts))
        if host in LINKED:
            self.known_ip.add(LINKED[host])
        if host == OP_SERVER:
            self.ot_known = 1
        return TRUE

    def _watch(self, events: dict[int, list[int]], placed: int) -> None:
        self.activity = [0] * 13
        for host in range(13):
            log = events.get(host, [])
            entries, ports = len(log) + (host == placed), len(set(log))
            if entries == 0:
                continue
            if entries >= 3 and ports >= 3:
                self.activity[host] = 1
            elif 4444 in log or (entries >= 3 and ports == 1):
                self.activity[host] = 2
            elif host == placed and not (self.wrapper2 and log):
                self.activity[host] = 0
            else:
                self.activity[host] = 1
            if self.activity[host] == 2:
                self.hosts[host].comp = USER
        scans = {host for host in range(13) if self.activity[host] == 1}
        self.seen_scans |= scans
        self.last_scans = scans or self.last_scans

    def observation(self) -> list[int]:
        """The 52 bits."""
        bits: list[int] = []
        for host in range(13):
            bits += [(0, 0), (1, 0), (1, 1)][self.activity[host]]
            bits += [(0, 0), (1, 0), (0, 1), (1, 1)][self.hosts[host].comp]
        return bits

    def scan_memory(self) -> list[float]:
        """Per host: 1 if it showed a scan in the last step with any, 0.5 if in an earlier one."""
        return [
            1.0 if host in self.last_scans else 0.5 * (host in self.seen_scans)
            for host in range(13)
        ]

    def remembered(self, host: int) -> int:
        """Red's memory of a host's ports as in the recordings."""
        ports = self.hosts[host].ports
        if ports is None:
            return 0
        return 1 << 15 | sum(1 << bit for bit, port in enumerate(PORT_BITS) if port in ports)


def mask(members: set[int]) -> int:
    """A set of hosts as a mask."""
    return sum(1 << member for member in members)
