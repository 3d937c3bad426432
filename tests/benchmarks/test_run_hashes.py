"""The comparison of two versions bit by bit, and by speed."""

from __future__ import annotations

import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from benchmarks import run_hashes, versions
from briskrl.bench.compare import Estimate

RUN = "dqn-snake-fused"

FAKE = """#!{python}
import json, sys
from pathlib import Path
import numpy as np
from safetensors.numpy import save_file
if "train" not in sys.argv:
    print(json.dumps({{"rate": {value}, "nested": {{"cost": 4.0}}}}))
    sys.exit()
run = Path(sys.argv[sys.argv.index("--run-dir") + 1])
(run / "policy").mkdir(parents=True)
(run / "checkpoints" / "1").mkdir(parents=True)
(run / "checkpoints" / "LATEST").write_text("1")
for path in (run / "policy" / "model", run / "checkpoints" / "1" / "optim"):
    save_file({{"a": np.full(3, {value})}}, f"{{path}}.safetensors")
(run / "metrics.jsonl").write_text(json.dumps({{"loss": {value}, "wall_s": id(run)}}))
(run / "episodes.csv").write_text("1,2")
"""


def fake_brisk(folder: Path, value: float) -> str:
    """An executable that writes a run folder whose content depends on `value`."""
    path = folder / f"brisk-{value}"
    path.write_text(FAKE.format(python=sys.executable, value=value))
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return str(path)


def test_equal_versions_are_identical_and_others_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "hashes.json"
    assert run_hashes.record(fake_brisk(tmp_path, 1.0), file, [RUN]) == 0
    assert set(json.loads(file.read_text())[RUN]) == {"model", "ckpt_optim", "metrics", "episodes"}
    assert run_hashes.compare(fake_brisk(tmp_path, 1.0), file, [RUN]) == 0
    assert "1 of 1 identical" in capsys.readouterr().out
    assert run_hashes.compare(fake_brisk(tmp_path, 2.0), file, [RUN]) == 1
    assert "DIFFERENT: model, ckpt_optim, metrics" in capsys.readouterr().out


def test_a_failing_run_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brisk = tmp_path / "brisk"
    brisk.write_text(f"#!{sys.executable}\nraise SystemExit('no such environment')")
    brisk.chmod(0o755)
    assert run_hashes.record(str(brisk), tmp_path / "hashes.json", [RUN]) == 1
    assert "no such environment" in capsys.readouterr().out


def test_arrays_are_hashed_whatever_their_names(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    first, second = np.arange(3), np.ones(2, np.float32)
    save_file({"x": first, "y": second}, paths[0])
    save_file({"z": first, "a": second}, paths[1])
    save_file({"x": first + 1, "y": second}, paths[2])
    hashes = [run_hashes.hash_arrays(path) for path in paths]
    assert hashes[0] == hashes[1] != hashes[2]


def test_versions_are_compared_by_rates_and_costs(tmp_path: Path) -> None:
    benchmark = versions.Benchmark("bench x", rates=("rate",), costs=("nested.cost",))
    old, new = fake_brisk(tmp_path, 2.0), fake_brisk(tmp_path, 3.0)
    found = dict(versions.compare(benchmark, old, new, rounds=2))
    assert found["rate"].estimate().ratio == pytest.approx(1.5)
    assert found["nested.cost"].rates == {"old": [0.25, 0.25], "new": [0.25, 0.25]}


def test_figures_below_the_tolerance_are_marked() -> None:
    assert "SLOWER" in versions.describe(Estimate(0.9, 0.88, 0.92, 5))
    assert "SLOWER" not in versions.describe(Estimate(0.98, 0.9, 1.1, 5))
