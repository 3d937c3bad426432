"""The speed of this machine, measured once and cached.

There is one file per kind of machine in the user's cache folder. Its name contains a fingerprint of
everything that the figures depend on: processor, cores, versions, and the source of the kernels.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from llvmlite import binding

from briskrl import fused
from briskrl.core.cpu import cpu_model, usable_cores
from briskrl.core.user_cache import make_folder, user_cache
from briskrl.fused.calibration.calibrate import Calibration, calibrate, calibrate_quickly
from briskrl.training.storage.run_dir import timestamp

_FEATURES = ("sse4.2", "avx2", "fma", "avx512f", "avx512bf16", "amx-tile", "neon", "sve")
"""Features of a processor that decide how fast it multiplies matrices."""

_PACKAGES = ("numba", "torch")


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """A machine and its measured speed."""

    fingerprint: str
    cpu: str
    architecture: str
    """LLVM's name of the processor."""
    cores: int
    """Cores that this process may use."""
    features: tuple[str, ...]
    versions: dict[str, str]
    measured_at: str
    calibration: Calibration


def load_profile() -> MachineProfile | None:
    """The cached profile of this machine; None if there is none, or the file is damaged."""
    path = profile_path()
    if path is None:
        return None
    try:
        saved = msgspec.json.decode(path.read_bytes(), type=MachineProfile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return saved if saved.fingerprint == fingerprint() else None


def quick_profile() -> MachineProfile:
    """The cached profile of this machine, or a quick measurement, which is cached."""
    known = load_profile()
    if known is not None:
        return known
    machine = _describe(calibrate_quickly())
    save(machine)
    return machine


def measure_profile(seconds: float) -> tuple[MachineProfile, Path | None]:
    """Measure this machine thoroughly; returns the profile and its file, if it could be saved."""
    machine = _describe(calibrate(seconds, two_threads=usable_cores() > 1))
    return machine, save(machine)


def save(machine: MachineProfile) -> Path | None:
    """Cache a profile; returns its file, or None if it could not be written."""
    return keep(profile_path(), machine)


def keep(path: Path | None, figures: Any) -> Path | None:
    """Write figures to a file in the user's cache; returns it, or None if that failed.

    Several processes may write the same file at once; readers always find a complete one.
    """
    if path is None:
        return None
    text = msgspec.json.format(msgspec.json.encode(figures), indent=1) + b"\n"
    try:
        make_folder(path.parent)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(text)
    except OSError:
        return None
    try:
        os.replace(file.name, path)
    except OSError:
        with suppress(OSError):
            os.unlink(file.name)
        return None
    return path


def profile_path() -> Path | None:
    """The cache file of this machine's profile; None for a user without a home folder."""
    return cache_file(f"machine-{fingerprint()}.json")


def cache_file(name: str) -> Path | None:
    """A file in this package's part of the user's cache; None for a user without a home folder."""
    base = user_cache()
    return None if base is None else base / "briskrl" / name


def fingerprint() -> str:
    """A hash of everything that the figures depend on."""
    digest = hashlib.blake2b(digest_size=8)
    facts = [cpu_model(), binding.get_host_cpu_name(), usable_cores(), *_features(), _versions()]
    digest.update(repr(facts).encode())
    for source in sorted(Path(str(fused.__file__)).parent.glob("kernels/*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _describe(calibration: Calibration) -> MachineProfile:
    return MachineProfile(
        fingerprint=fingerprint(),
        cpu=cpu_model(),
        architecture=binding.get_host_cpu_name(),
        cores=usable_cores(),
        features=_features(),
        versions=_versions(),
        measured_at=timestamp(),
        calibration=calibration,
    )


def _features() -> tuple[str, ...]:
    found = binding.get_host_cpu_features()
    return tuple(name for name in _FEATURES if found.get(name))


def _versions() -> dict[str, str]:
    return {name: version(name) for name in _PACKAGES}
