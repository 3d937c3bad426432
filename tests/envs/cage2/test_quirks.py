"""The seventeen quirks of the original simulator that the environment reproduces, by number."""

from __future__ import annotations

import numpy as np
import pytest

from briskrl.envs.cage2 import scenario as s
from briskrl.envs.cage2.kernels import layout as k
from tests.envs.cage2.driver import Network

ROOT_EXPLOITS = [
    ("FTPDirectoryTraversal", "User1"),
    ("EternalBlue", "User2"),
    ("SQLInjection", "User4"),
    ("HarakaRCE", "User3"),
    ("HarakaRCE", "User4"),
    ("BlueKeep", "Enterprise1"),
    ("BlueKeep", "Enterprise2"),
]


def conquered() -> Network:
    """A network in which red is about to stop the operational service."""
    net = Network()
    net.take("Enterprise2", "HTTPSRFI")
    net.take("Op_Server0", "SSHBruteForce")
    net.step(red="escalate Op_Server0")
    return net


def test_01_one_restore_of_op_server0_makes_every_later_impact_harmless() -> None:
    net = conquered()
    net.step("Restore Op_Server0")
    net.take("Op_Server0", "SSHBruteForce")
    net.step(red="escalate Op_Server0")
    assert net.step(red="impact Op_Server0") == -1.0
    assert net.red_result == "succeeded"
    assert net.truth.ot_running[0] == 1


def test_01_even_a_restore_as_a_precaution_does() -> None:
    net = Network()
    assert net.step("Restore Op_Server0") == -1.0
    net.take("Enterprise2", "HTTPSRFI")
    net.take("Op_Server0", "SSHBruteForce")
    net.step(red="escalate Op_Server0")
    net.step(red="impact Op_Server0")
    assert net.truth.ot_running[0] == 1
    assert net.truth.ot_armed[0] == 0


def test_02_a_stopped_service_costs_ten_in_every_step_until_a_restore() -> None:
    net = conquered()
    assert net.step(red="impact Op_Server0") == -11.0
    assert net.step() == -11.0
    assert net.step("Remove Op_Server0", red="scan User1") == -11.0
    assert net.step("Restore Op_Server0") == -1.0
    assert net.step() == 0.0


def test_03_analysis_reports_any_dropper_even_of_a_removed_session() -> None:
    net = Network()
    net.take("Enterprise1", "HTTPRFI")
    net.step("Remove Enterprise1")
    assert net.of("access", "Enterprise1") == 0
    net.step("Analyse Enterprise1")
    assert net.flag("Enterprise1") == "Privileged"


def test_03_analysis_reports_nothing_about_an_ssh_session() -> None:
    net = Network()
    net.take("Enterprise0", "SSHBruteForce")
    net.step("Analyse Enterprise0")
    assert net.flag("Enterprise0") == "User"
    assert net.of("files", "Enterprise0") == 0


def test_03_analysis_sees_what_was_there_before_red_acts() -> None:
    net = Network()
    net.step(red="scan Enterprise1")
    net.step("Analyse Enterprise1", red="exploit Enterprise1", by="HTTPRFI")
    assert net.flag("Enterprise1") == "User"


@pytest.mark.parametrize(
    ("host", "by", "detected", "left"),
    [
        ("Enterprise0", "SSHBruteForce", True, 1),
        ("Enterprise1", "HTTPRFI", False, 1),
        ("Enterprise1", "BlueKeep", True, 2),
        ("Enterprise1", "HTTPRFI", True, 0),
    ],
    ids=["ssh", "undetected", "privileged", "detected"],
)
def test_04_only_detected_user_sessions_can_be_removed(
    host: str, by: str, detected: bool, left: int
) -> None:
    net = Network()
    net.take(host, by, detected=detected)
    net.step(f"Remove {host}")
    assert net.of("access", host) == left


def test_05_remove_succeeds_and_flips_the_flag_whatever_happened() -> None:
    net = Network()
    net.take("Enterprise0", "SSHBruteForce")
    net.step("Remove Enterprise0")
    assert net.blue_result == "succeeded"
    assert net.flag("Enterprise0") == "Unknown"
    net.step("Remove User1")
    assert net.blue_result == "succeeded"
    assert net.flag("User1") == "No"


@pytest.mark.parametrize("host", ["Defender", "User3"], ids=["no-account", "decoy"])
def test_06_failed_brute_force_reads_exploit_and_sets_user(host: str) -> None:
    net = Network()
    if host == "User3":
        net.step("DecoySSHD User3")
    net.take(host, "SSHBruteForce")
    assert net.red_result == "failed"
    assert (net.seen(host), net.flag(host)) == ("Exploit", "User")
    assert net.of("access", host) == 0


def test_07_an_undetected_exploit_reads_scan() -> None:
    net = Network()
    net.take("Enterprise1", "HTTPRFI", detected=False)
    assert (net.seen("Enterprise1"), net.flag("Enterprise1")) == ("Scan", "No")
    assert net.of("access", "Enterprise1") == 1


def test_07_a_hit_on_a_decoy_reads_scan_unless_another_was_just_placed() -> None:
    net = Network()
    net.step("DecoyTomcat Enterprise0")
    net.take("Enterprise0", "HTTPSRFI")
    assert (net.red_result, net.seen("Enterprise0")) == ("failed", "Scan")
    net.step("DecoyHarakaSMPT Enterprise0", red="exploit Enterprise0", by="HTTPSRFI")
    assert (net.seen("Enterprise0"), net.flag("Enterprise0")) == ("Exploit", "User")


@pytest.mark.parametrize(("view", "shown"), [("table", "None"), ("wrapper2", "Scan")])
def test_08_a_scan_is_hidden_by_a_decoy_placed_in_the_same_step(view: str, shown: str) -> None:
    net = Network(view=view)
    net.step("DecoyApache Op_Host0")
    assert net.seen("Op_Host0") == "None"
    net.take("Enterprise0", "SSHBruteForce")
    net.step("DecoyTomcat Enterprise0", red="scan Enterprise0")
    assert net.seen("Enterprise0") == shown
    net.step("DecoyFemitter Enterprise1", red="scan Enterprise1")
    assert net.seen("Enterprise1") == "Scan"


def test_09_a_new_exploit_downgrades_privileged_to_user() -> None:
    net = Network()
    net.take("Enterprise1", "BlueKeep")
    net.step("Analyse Enterprise1")
    assert net.flag("Enterprise1") == "Privileged"
    net.step(red="exploit Enterprise1", by="BlueKeep")
    assert net.flag("Enterprise1") == "User"


def test_10_escalation_impact_and_discovery_are_invisible() -> None:
    net = conquered()
    before = net.out.obs.copy()
    before[:, ::4] = before[:, 1::4] = 0
    for red in ("escalate Op_Server0", "impact Op_Server0", "discover Enterprise"):
        net.step(red=red)
        assert net.red_result == "succeeded"
        np.testing.assert_array_equal(net.out.obs, before)


@pytest.mark.parametrize(("by", "host"), ROOT_EXPLOITS)
def test_11_some_exploits_give_privileged_access_at_once(by: str, host: str) -> None:
    net = Network()
    cost = s.HOSTS[s.HOST_NAMES.index(host)].confidentiality
    assert net.take(host, by) == -cost
    assert net.of("access", host) == 2


@pytest.mark.parametrize(
    ("by", "host"),
    [("EternalBlue", "Enterprise1"), ("EternalBlue", "Enterprise2"), ("BlueKeep", "User3")],
)
def test_12_mismatched_exploits_fail_silently(by: str, host: str) -> None:
    net = Network()
    net.take(host, by)
    assert net.red_result == "failed"
    assert net.seen(host) == "None"
    assert net.truth.red_exploit[0] == s.EXPLOIT_NAMES.index(by)


def test_13_vsftpd_looks_at_one_port_opens_another_and_stacks() -> None:
    net = Network()
    for _ in range(3):
        net.step("DecoyVsftpd Enterprise0")
        assert net.blue_result == "succeeded"
    assert net.of("decoys", "Enterprise0")[7] == 3
    net.step("DecoyApache Enterprise0")
    assert net.blue_result == "failed"
    net.take("Enterprise0", "HTTPRFI")
    assert net.red_result == "failed"
    net.step("Restore Enterprise0")
    assert net.of("decoys", "Enterprise0").sum() == 0
    net.step("DecoyApache Enterprise0")
    net.step("DecoyVsftpd Enterprise0")
    assert net.blue_result == "succeeded"


def test_13_vsftpd_traps_nothing_beside_a_genuine_web_server() -> None:
    net = Network()
    net.step("DecoyVsftpd User4")
    net.take("User4", "HTTPRFI")
    assert net.red_result == "succeeded"


def test_14_scans_of_unreachable_hosts_succeed_empty() -> None:
    net = Network()
    net.step(red="scan Op_Server0")
    assert net.red_result == "succeeded"
    assert net.seen("Op_Server0") == "None"
    assert net.of("red_ports", "Op_Server0") == 0
    net.take("Enterprise0", "SSHBruteForce")
    net.step(red="exploit Op_Server0")
    assert net.red_result == "failed"
    assert net.truth.red_exploit[0] == -1


def test_14_meander_never_scans_such_a_host_again_and_never_gets_in() -> None:
    net = Network("meander")
    net.env._i16[0, k.KNOWN_IP] |= 1 << s.HOST_NAMES.index("Op_Server0")
    scanned = []
    for _ in range(400):
        kind, target = net.follow()
        if kind == "DiscoverNetworkServices":
            scanned.append(target)
    assert scanned.count("Op_Server0") == 1
    assert net.of("red_ports", "Op_Server0") == 0
    assert net.of("access", "Op_Server0") == 0
    assert net.of("access", "Enterprise2") > 0


def test_15_meander_scans_a_host_once_so_that_later_decoys_are_unknown_to_it() -> None:
    net = Network("meander")
    scanned = [net.follow() for _ in range(300)]
    targets = [target for kind, target in scanned if kind == "DiscoverNetworkServices"]
    assert len(targets) == len(set(targets)) >= 10
    ports = net.of("red_ports", "Enterprise0")
    net.step("DecoyHarakaSMPT Enterprise0")
    for _ in range(100):
        net.follow()
    assert net.of("red_ports", "Enterprise0") == ports


def test_15_b_line_scans_again_only_when_it_comes_back_to_a_scanning_stage() -> None:
    net = Network("bline")
    stages = []
    for step in range(400):
        # An occasional restore throws it back.
        blue = "Restore Enterprise2" if step % 7 == 0 else "Sleep"
        kind, _ = net.follow(blue)
        stages.append((int(net.truth.bline_stage[0]), kind))
    scans = {stage for stage, kind in stages if kind == "DiscoverNetworkServices"}
    assert scans <= {1, 4, 8, 11}
    assert max(stage for stage, _ in stages) >= 11


def test_16_restoring_makes_red_forget_nothing() -> None:
    net = Network()
    net.take("Enterprise1", "HTTPRFI")
    before = net.of("red_ports", "Enterprise1"), net.truth.known_host[0]
    net.step("Restore Enterprise1")
    assert (net.of("red_ports", "Enterprise1"), net.truth.known_host[0]) == before
    assert net.of("access", "Enterprise1") == 0


def test_17_a_failed_attempt_on_defender_makes_meander_redo_its_enterprise_hosts() -> None:
    net = Network("meander")
    redone = 0
    for _ in range(300):
        before = net.truth
        net.follow()
        attacked = before.red_action[0] == 3 and before.red_target[0] == 0
        owned = before.meander_escalated[0]
        if attacked and owned & 0b1110 and not owned & 0b1111 << 4:
            redone += 1
            lost = owned & ~net.truth.meander_escalated[0]
            # It may start again with one of them at once.
            assert ((owned & 0b1110) & ~lost).bit_count() <= 1
    assert redone > 0
