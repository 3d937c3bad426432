"""A signal while the first start compiles ends the program within seconds, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_signal_during_the_first_compilation_takes_effect_within_five_seconds(tmp_path: Path):
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "briskrl", "train", "snake", "--run-dir", "r"],
        cwd=tmp_path,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if "warming up" in line:
                break
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        begin = time.monotonic()
        assert process.wait(60) == 130
        assert time.monotonic() - begin < 5.0
        errors = process.stderr.read()
    assert len(errors.splitlines()) == 1
    assert "brisk resume r" in errors
    assert (tmp_path / "r" / "config.toml").exists()
    assert not (tmp_path / "r" / "checkpoints").exists()
