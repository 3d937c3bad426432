"""Scenario2 as data: hosts with their services, decoys, exploits, actions and the path of B_line.

Names and numbers are those of the original simulator. `briskrl.envs.cage2.layout` turns them into
tables for the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from briskrl.core.errors import ConfigError, nearest

Level = Literal["user", "root"]
System = Literal["Linux", "Windows"]

PORTS = (21, 22, 25, 53, 68, 80, 135, 139, 443, 445, 3389, 3390)
"""All ports; sets of ports are masks in this order."""
SUBNETS = ("Enterprise", "Operational", "User")
"""In the order in which Meander tries them."""
REDS = ("bline", "meander", "sleep")
GREEN_TARGETS = (
    *("User0", "User1", "User2", "User3", "User4"),
    *("Enterprise0", "Enterprise1", "Enterprise2"),
)
"""Hosts that the optional green user scans."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process of a host with the socket it listens on."""

    port: int
    kind: str = ""
    """Name that exploits look for; empty if none does."""
    level: Level | None = None
    """Access after a successful exploit; None if it cannot succeed."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of the network."""

    name: str
    subnet: str
    system: System
    services: tuple[Service, ...]
    confidentiality: float
    """Cost per step of red's privileged access."""
    link: str | None = None
    """The host whose address red learns by escalating here."""


@dataclass(frozen=True, slots=True)
class Decoy:
    """A fake service that blue may place."""

    name: str
    checks: int
    """The port that must not be listening yet."""
    opens: int
    traps: str
    """The exploit that it traps."""
    system: System | None = None
    """The operating system that it needs; None for any."""


@dataclass(frozen=True, slots=True)
class Exploit:
    """An exploit of a service."""

    name: str
    port: int
    """Port and kind of the service it attacks; red must remember the port."""
    kind: str
    weight: float
    """Red prefers the largest."""
    any_of: tuple[int, ...] = ()
    """Further ports, of which red must remember one."""


_SSH = Service(22, "ssh", "user")
_FTP = Service(21, "ftp", "root")
_SMTP = Service(25, "smtp", "root")
_WEB, _TLS = Service(80, "web", "user"), Service(443, "web", "user")
_OFFICE = (
    _SSH,
    Service(135),
    Service(3389, "rdp", "root"),
    Service(445),
    Service(139),
    _WEB,
    _TLS,
)
_DESKTOP = (Service(445, "smb", "root"), Service(139, "smb", "root"), Service(135))

HOSTS = (
    # Defender does not have the account that brute force finds elsewhere.
    Host(
        "Defender",
        "Enterprise",
        "Linux",
        (Service(22, "ssh"), Service(53), Service(53), Service(68)),
        0.1,
    ),
    Host("Enterprise0", "Enterprise", "Linux", (_SSH,), 1.0),
    Host("Enterprise1", "Enterprise", "Windows", _OFFICE, 1.0),
    Host("Enterprise2", "Enterprise", "Windows", _OFFICE, 1.0, link="Op_Server0"),
    Host("Op_Host0", "Operational", "Linux", (_SSH,), 0.1),
    Host("Op_Host1", "Operational", "Linux", (_SSH,), 0.1),
    Host("Op_Host2", "Operational", "Linux", (_SSH,), 0.1),
    Host("Op_Server0", "Operational", "Linux", (_SSH,), 1.0),
    Host("User0", "User", "Windows", (_SSH, _FTP), 0.0),
    Host("User1", "User", "Windows", (_SSH, _FTP), 0.1, link="Enterprise1"),
    Host(
        "User2",
        "User",
        "Windows",
        (*_DESKTOP, Service(3389, "rdp", "user")),
        0.1,
        link="Enterprise1",
    ),
    Host(
        "User3",
        "User",
        "Linux",
        (_WEB, Service(3389, "mysql", "root"), _TLS, _SMTP),
        0.1,
        link="Enterprise0",
    ),
    Host(
        "User4",
        "User",
        "Linux",
        (_SSH, _WEB, Service(3390, "mysql", "root"), _TLS, _SMTP),
        0.1,
        link="Enterprise0",
    ),
)
HOST_NAMES = tuple(host.name for host in HOSTS)
NUM_HOSTS = len(HOSTS)

DECOYS = (
    Decoy("Apache", checks=80, opens=80, traps="HTTPRFI"),
    Decoy("Femitter", checks=21, opens=21, traps="FTPDirectoryTraversal", system="Windows"),
    Decoy("HarakaSMPT", checks=25, opens=25, traps="HarakaRCE", system="Linux"),
    Decoy("Smss", checks=139, opens=139, traps="EternalBlue", system="Windows"),
    Decoy("SSHD", checks=22, opens=22, traps="SSHBruteForce"),
    Decoy("Svchost", checks=3389, opens=3389, traps="BlueKeep", system="Windows"),
    Decoy("Tomcat", checks=443, opens=443, traps="HTTPSRFI"),
    # Checks one port and opens another, so it never blocks itself and can be stacked.
    Decoy("Vsftpd", checks=21, opens=80, traps="HTTPRFI", system="Linux"),
)
DECOY_NAMES = tuple(decoy.name for decoy in DECOYS)

EXPLOITS = (
    Exploit("EternalBlue", 139, "smb", 2.0),
    Exploit("BlueKeep", 3389, "rdp", 1.0),
    Exploit("HTTPRFI", 80, "web", 3.0),
    Exploit("HTTPSRFI", 443, "web", 4.0),
    Exploit("SSHBruteForce", 22, "ssh", 0.1),
    Exploit("SQLInjection", 3390, "mysql", 5.0, any_of=(80, 443)),
    Exploit("HarakaRCE", 25, "smtp", 6.0),
    Exploit("FTPDirectoryTraversal", 21, "ftp", 7.0),
)
EXPLOIT_NAMES = tuple(exploit.name for exploit in EXPLOITS)

RED_KINDS = (
    "Sleep",
    "DiscoverRemoteSystems",
    "DiscoverNetworkServices",
    "ExploitRemoteService",
    "PrivilegeEscalate",
    "Impact",
)

B_LINE = (
    ("DiscoverRemoteSystems", "User"),
    ("DiscoverNetworkServices", "U"),
    ("ExploitRemoteService", "U"),
    ("PrivilegeEscalate", "U"),
    ("DiscoverNetworkServices", "E"),
    ("ExploitRemoteService", "E"),
    ("PrivilegeEscalate", "E"),
    ("DiscoverRemoteSystems", "Enterprise"),
    ("DiscoverNetworkServices", "Enterprise2"),
    ("ExploitRemoteService", "Enterprise2"),
    ("PrivilegeEscalate", "Enterprise2"),
    ("DiscoverNetworkServices", "Op_Server0"),
    ("ExploitRemoteService", "Op_Server0"),
    ("PrivilegeEscalate", "Op_Server0"),
    ("Impact", "Op_Server0"),
)
"""Action of each stage: U is a user host drawn once, E the host that it links to."""
B_LINE_USERS = ("User1", "User2", "User3", "User4")
JUMP = (0, 1, 2, 2, 2, 2, 5, 5, 5, 5, 9, 9, 9, 12, 13)
"""Next stage of B_line after a stage that failed."""

BLUE_KINDS = ("Analyse", "Remove", *(f"Decoy{name}" for name in DECOY_NAMES), "Restore")
"""Blue actions on a host, in the order of their indices."""
SLEEP, MONITOR = 0, 1
ACTION_NAMES = (
    "Sleep",
    "Monitor",
    *(f"{kind} {host}" for kind in BLUE_KINDS for host in HOST_NAMES),
)
"""The 145 blue actions."""

REDUCED_HOSTS = (
    "Defender",
    "Enterprise0",
    "Enterprise1",
    "Enterprise2",
    "Op_Server0",
    "User1",
    "User2",
    "User3",
    "User4",
)
"""Hosts of the reduced action set."""
REDUCED_KINDS = ("Analyse", "Remove", "Restore", "Decoy")
REDUCED_NAMES = ("Sleep", *(f"{kind} {host}" for kind in REDUCED_KINDS for host in REDUCED_HOSTS))
"""The 37 actions of the reduced set; Decoy sets up the next best decoy that fits."""
BEST_DECOYS = {
    "Defender": ("HarakaSMPT", "Tomcat", "Apache", "Vsftpd"),
    "Enterprise0": ("HarakaSMPT", "Tomcat", "Apache", "Vsftpd"),
    "Enterprise1": ("Femitter",),
    "Enterprise2": ("Femitter",),
    "Op_Server0": ("HarakaSMPT", "Tomcat", "Apache", "Vsftpd"),
    "User1": ("Tomcat", "Apache", "Smss", "Svchost"),
    "User2": ("Femitter", "Tomcat", "Apache", "SSHD"),
    "User3": ("SSHD", "Vsftpd"),
    "User4": ("Vsftpd",),
}
"""Decoys of a host by red's preference for their exploit; each is set up once."""


def action_index(name: str) -> int:
    """The index of a blue action such as "Restore Op_Server0".

    Raises:
        ConfigError: There is no action or no host of that name.
    """
    if name not in ACTION_NAMES:
        raise ConfigError(f"There is no action {name!r}. {nearest(name, ACTION_NAMES)}")
    return ACTION_NAMES.index(name)
