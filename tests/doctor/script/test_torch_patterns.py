"""Scripts that learn with torch and are slow or wrong in ways that need its counters."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.script.examine_command import examine
from tests.doctor.script.test_patterns import line_of
from tests.doctor.script.watched_scripts import write

TRAINING = """
import sys
import torch

torch.set_num_threads(1)
{setup}
net = torch.nn.Sequential(torch.nn.Linear(8, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))
optimizer = torch.optim.Adam(net.parameters())
world, total_loss, network = World(), 0.0, net
batch = torch.ones({rows}, 8)
for _ in range(int(sys.argv[1])):
    obs, reward, done = world.step(1)
    {acting}
    for _ in range({updates}):
        loss = net(batch).square().mean()
        optimizer.zero_grad()
        loss.backward({backward})
        optimizer.step()
        {after}
"""
TRACED = {
    "acting": "network = torch.jit.trace(net, torch.zeros(1, 8), check_trace=False)  # found here",
    "updates": "int(done)",
}
DOUBLE = {"setup": "torch.set_default_dtype(torch.float64)  # found here", "rows": "128"}
SUMMED = {
    "after": "total_loss += loss  # found here",
    "backward": "retain_graph=True",
    "rows": "8",
}

SPIED = {
    "setup": "torch.autograd.set_detect_anomaly(True)  # found here",
    "rows": "16",
    "acting": "rate = torch.distributions.Categorical(logits=net(batch[:1])).sample()",
}

TWO_OPTIMIZERS = {
    "setup": "other = torch.nn.Linear(8, 256)\ncritic = torch.optim.Adam(other.parameters())",
    "after": "other(batch).square().mean().backward(); critic.step(); critic.zero_grad()",
}


def examined(
    folder: Path, parts: dict[str, str], steps: int, budget: float = 100
) -> dict[str, Any]:
    """The report of a small training with some parts filled in, which ends by itself."""
    usual = {"setup": "", "acting": "", "updates": "1", "after": "", "backward": "", "rows": "512"}
    write(folder, TRAINING.format(**{**usual, **parts}))
    report, done = examine(sys.executable, "train.py", steps, cwd=folder, budget=budget)
    assert done.returncode == 0, done.stderr
    return report


@pytest.mark.parametrize(
    ("parts", "cause"),
    [(TRACED, "compile"), (DOUBLE, "dtype")],
    ids=["traced at every step", "double precision"],
)
def test_the_cause_is_named_with_its_place(
    tmp_path: Path, parts: dict[str, str], cause: str
) -> None:
    report = examined(tmp_path, parts, steps=500)
    found = {finding["cause"]: finding for finding in report["findings"]}
    assert cause in found, report["findings"]
    assert found[cause]["location"] == f"train.py:{line_of(tmp_path, 'found here')}"
    assert found[cause]["gain"]["factor"] > 1.08
    assert found[cause]["fix"]


@pytest.mark.slow
def test_a_sum_of_losses_with_their_graphs_is_a_leak(tmp_path: Path) -> None:
    report = examined(tmp_path, SUMMED, steps=12_000)
    found = {finding["cause"]: finding for finding in report["findings"]}
    assert found["leak"]["location"] == f"train.py:{line_of(tmp_path, 'found here')}"
    assert "loss.item()" in found["leak"]["fix"]


@pytest.mark.slow
def test_modes_that_search_for_mistakes_are_turned_off_in_turns(tmp_path: Path) -> None:
    report = examined(tmp_path, SPIED, steps=10**7, budget=30)
    asked = {outcome["name"]: outcome for outcome in report["outcomes"]}
    assert asked["anomaly detection off"]["gain"]["factor"] > 1
    assert "distribution checks off" in asked
    found = {finding["cause"]: finding for finding in report["findings"]}
    assert found["anomaly"]["location"] == f"train.py:{line_of(tmp_path, 'found here')}"


def test_an_actor_and_a_critic_are_not_two_updates_per_step(tmp_path: Path) -> None:
    report = examined(tmp_path, TWO_OPTIMIZERS, steps=600)
    assert report["speed"]["updates_per_step"] > 1.8
    assert "updates" not in {finding["cause"] for finding in report["findings"]}
