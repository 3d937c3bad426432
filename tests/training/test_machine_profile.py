"""The machine's profile is measured once, cached atomically, and ignored if it is damaged."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from briskrl.core.cpu import usable_cores
from briskrl.training import machine_profile as machine
from briskrl.training.machine_profile import (
    fingerprint,
    load_profile,
    profile_path,
    quick_profile,
    save,
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> machine.MachineProfile:
    """This machine, measured once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return quick_profile()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "briskrl"


def test_a_machine_is_measured_once_and_then_read_from_the_cache(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_profile() is None
    first = quick_profile()
    assert first.calibration.gflops > 0
    assert [path.name for path in cache.iterdir()] == [f"machine-{first.fingerprint}.json"]
    monkeypatch.setattr(machine, "calibrate_quickly", lambda: pytest.fail("measured again"))
    assert load_profile() == quick_profile() == first


def test_the_cache_file_is_json_with_everything_the_figures_depend_on(
    measured: machine.MachineProfile,
) -> None:
    path = save(measured)
    assert path == profile_path()
    saved = json.loads(path.read_text())
    assert saved["cores"] == usable_cores() == measured.cores >= 1
    assert set(saved["versions"]) == {"numba", "torch"}
    assert saved["cpu"]
    assert saved["calibration"]["quick"] is True


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"fingerprint": 3}',
    ],
    ids=repr,
)
def test_a_damaged_cache_file_is_measured_again_and_replaced(
    content: bytes, measured: machine.MachineProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = profile_path()
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    monkeypatch.setattr(machine, "calibrate_quickly", lambda: measured.calibration)
    assert load_profile() is None
    assert quick_profile().calibration == measured.calibration
    assert load_profile() is not None


@pytest.mark.parametrize("gflops", ["0", "-3.5", '"fast"', "null", "NaN", "1e999"])
def test_impossible_rates_are_ignored(gflops: str, measured: machine.MachineProfile) -> None:
    path = save(measured)
    assert path is not None
    saved = json.loads(path.read_text())
    saved["calibration"]["gflops"] = "HERE"
    path.write_text(json.dumps(saved).replace('"HERE"', gflops))
    assert load_profile() is None


def test_a_truncated_cache_file_is_ignored_wherever_it_ends(
    measured: machine.MachineProfile,
) -> None:
    path = save(measured)
    assert path is not None
    whole = path.read_bytes().rstrip()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        assert load_profile() is None
    path.write_bytes(whole)
    assert load_profile() == measured


def test_figures_of_another_machine_are_ignored(
    measured: machine.MachineProfile,
) -> None:
    save(replace(measured, fingerprint="another machine"))
    assert load_profile() is None


@pytest.mark.parametrize("change", ["cores", "processor", "versions"])
def test_another_machine_has_another_fingerprint(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint()
    assert fingerprint() == before
    other = {
        "cores": ("usable_cores", lambda: 999),
        "processor": ("cpu_model", lambda: "Abacus"),
        "versions": ("_versions", lambda: {"torch": "99"}),
    }
    monkeypatch.setattr(machine, *other[change])
    assert fingerprint() != before


def test_figures_are_measured_even_if_they_cannot_be_saved(
    tmp_path: Path, measured: machine.MachineProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    monkeypatch.setattr(machine, "calibrate_quickly", lambda: measured.calibration)
    assert save(measured) is None
    assert quick_profile().calibration == measured.calibration
    assert load_profile() is None


def test_a_failed_replace_leaves_only_the_old_file(
    cache: Path, measured: machine.MachineProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(measured)

    def fail(source: str, target: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "replace", fail)
    assert save(replace(measured, measured_at="later")) is None
    assert load_profile() == measured
    assert len(list(cache.iterdir())) == 1


def test_concurrent_writers_never_leave_an_incomplete_file(
    cache: Path, measured: machine.MachineProfile
) -> None:
    save(measured)
    done = threading.Event()
    unreadable = []

    def read() -> None:
        while not done.is_set():
            if load_profile() is None:
                unreadable.append(profile_path().read_bytes())

    def write(name: str) -> None:
        for _ in range(20):
            save(replace(measured, measured_at=name * 1000))

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    reader.start()
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert unreadable == []
    assert len(list(cache.iterdir())) == 1
