"""The machine fraction of a run: what is counted, over which time, and relative to what."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from torch.utils.flop_counter import FlopCounterMode

from briskrl.algos.dqn.support_monitor import SupportMonitor
from briskrl.algos.flops import Flops
from briskrl.training import machine_profile as machine
from briskrl.training import utilization
from briskrl.training.loop import resume, train
from briskrl.training.machine_profile import quick_profile, save
from briskrl.training.reporter import SilentReporter
from briskrl.training.storage.line_files import read_jsonl
from briskrl.training.utilization import Utilization, UtilizationMeter
from tests.training.runs import policy_hash, small_config

FLOPS = Flops(per_step=1e6, per_update=1e8)


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> machine.MachineProfile:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        return quick_profile()


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def of_rate(measured: machine.MachineProfile, gflops: float) -> machine.MachineProfile:
    return replace(measured, calibration=replace(measured.calibration, gflops=gflops))


def test_the_machine_fraction_is_flops_per_cpu_second_over_the_best_rate(measured):
    save(of_rate(measured, 100.0))
    meter = UtilizationMeter(FLOPS, on_cpu=True)
    assert meter.measure(steps=1000, updates=40, cpu_s=0.25) == Utilization(
        flops_per_step=5e6, achieved_gflops=20.0, machine_gflops=100.0, machine_fraction=0.2
    )


def test_the_machine_fraction_is_zero_before_the_first_step(measured):
    save(measured)
    found = UtilizationMeter(FLOPS, on_cpu=True).measure(steps=0, updates=0, cpu_s=0.0)
    assert found.flops_per_step == found.achieved_gflops == found.machine_fraction == 0


def test_the_machine_fraction_is_unknown_until_the_machine_is_calibrated():
    meter = UtilizationMeter(FLOPS, on_cpu=True)
    found = meter.measure(steps=1000, updates=0, cpu_s=1.0)
    assert found.achieved_gflops == pytest.approx(1.0)
    assert found.machine_gflops is found.machine_fraction is None
    assert meter.calibrate() > 0
    found = meter.measure(steps=1000, updates=0, cpu_s=1.0)
    assert found.machine_fraction == pytest.approx(1 / found.machine_gflops)


def test_nothing_is_measured_or_reported_for_an_accelerator(monkeypatch):
    monkeypatch.setattr(utilization, "quick_profile", lambda: pytest.fail("measured"))
    meter = UtilizationMeter(FLOPS, on_cpu=False)
    meter.calibrate()
    found = meter.measure(steps=10, updates=1, cpu_s=1.0)
    assert found == Utilization(1.1e7, None, None, None)


@pytest.mark.parametrize("preset", ["dqn", "ppo"])
def test_a_run_reports_its_machine_fraction_in_result_metrics_and_status(
    tmp_path, preset, measured
):
    save(of_rate(measured, 100.0))
    seen = {}

    def look(run):
        seen["flops"] = run.trainer.algo.flops(run.trainer.config.num_envs)

    result = train(small_config(tmp_path / "run", preset), hooks=[look])
    total = seen["flops"].total(result.env_steps, result.updates)
    assert result.updates > 0
    assert result.flops_per_step == pytest.approx(total / result.env_steps)
    assert result.achieved_gflops == pytest.approx(1e-9 * total / result.cpu_s)
    assert result.machine_gflops == 100.0
    assert result.machine_fraction == pytest.approx(result.achieved_gflops / 100)
    row = list(read_jsonl(tmp_path / "run" / "metrics.jsonl"))[-1]
    assert 0 < row["machine_fraction"] == pytest.approx(row["achieved_gflops"] / 100)


def test_a_resumed_run_counts_only_its_own_work(tmp_path):
    # The first half includes the steps before learning starts; the second half does not.
    options = {"learning_starts": 1000}
    first = train(small_config(tmp_path / "run", steps=1600, algo_config=options))
    second = resume(tmp_path / "run", steps=3200)
    assert second.flops_per_step > 1.5 * first.flops_per_step
    steps, updates = second.env_steps - 1600, second.updates - first.updates
    whole = first.flops_per_step * 1600 + second.flops_per_step * steps
    per_update = (second.flops_per_step - _acting(tmp_path)) * steps / updates
    assert whole == pytest.approx(_acting(tmp_path) * 3200 + per_update * second.updates)


def _acting(tmp_path) -> float:
    """Operations per step of a run that never learns."""
    folder = tmp_path / f"acting-{time.monotonic_ns()}"
    options = {"learning_starts": 1024}
    return train(small_config(folder, steps=64, algo_config=options)).flops_per_step


def test_warm_up_calibrates_an_unknown_machine_before_the_clock_starts(tmp_path, monkeypatch):
    events = []

    class Listener(SilentReporter):
        def on_warmup(self, seconds):
            events.append("warm")

    def slowly():
        time.sleep(0.7)
        events.append("calibrated")
        return quick_profile()

    monkeypatch.setattr(utilization, "quick_profile", slowly)
    result = train(small_config(tmp_path / "run", steps=160), reporter=Listener())
    assert events == ["calibrated", "warm"]
    assert result.warmup_s >= 0.7
    assert result.machine_fraction is not None
    assert machine.load_profile() is not None


def test_without_warm_up_an_unknown_machine_stays_unknown(tmp_path):
    result = train(small_config(tmp_path / "run", steps=160, warmup=False))
    assert result.achieved_gflops > 0
    assert result.machine_gflops is result.machine_fraction is None
    assert machine.load_profile() is None


def test_calibration_does_not_change_the_training(tmp_path):
    train(small_config(tmp_path / "calibrated", "ppo", engine="fused"))
    assert machine.load_profile() is not None
    train(small_config(tmp_path / "known", "ppo", engine="fused"))
    assert policy_hash(tmp_path / "calibrated") == policy_hash(tmp_path / "known")


@contextmanager
def without_diagnostics(counter: FlopCounterMode) -> Iterator[list[int]]:
    """Collects the FLOPs of diagnostics, which come once per report: not in the reported FLOPs."""
    drain, found = SupportMonitor.drain, [0]

    def counted(monitor: SupportMonitor) -> dict[str, float]:
        before = counter.get_total_flops()
        values = drain(monitor)
        found[0] += counter.get_total_flops() - before
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SupportMonitor, "drain", counted)
        yield found


@pytest.mark.parametrize("preset", ["dqn", "rainbow", "ppo", "a2c"])
def test_the_reported_flops_agree_with_torchs_flop_counter(tmp_path, preset):
    # Whole rollouts of 16 environments x 12 steps; the games end by themselves.
    config = small_config(tmp_path / "run", preset, steps=960, engine="torch", warmup=False)
    with FlopCounterMode(display=False) as counter, without_diagnostics(counter) as diagnostics:
        result = train(config)
    assert result.updates > 0
    claimed = result.flops_per_step * result.env_steps
    counted = counter.get_total_flops() - diagnostics[0]
    assert claimed == pytest.approx(counted, rel=1e-3)
    # Diagnostics have a categorical distribution only, and cost little.
    assert (diagnostics[0] > 0) == (preset == "rainbow")
    assert diagnostics[0] < 0.01 * counted


def test_the_reported_flops_with_reused_rollouts_agree_with_torchs_flop_counter(tmp_path):
    options = {"reuse": 2, "minibatch_size": 192}
    config = small_config(
        tmp_path / "run", "ppo", steps=2880, engine="torch", warmup=False, algo_config=options
    )
    with FlopCounterMode(display=False) as counter:
        result = train(config)
    # The first two rollouts have fewer before them than the others.
    claimed = result.flops_per_step * result.env_steps
    assert claimed == pytest.approx(counter.get_total_flops(), rel=0.01)
