"""Tables of figures."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from briskrl.cli.tables import print_result


@dataclass
class Speed:
    steps_per_s: float
    threads: int


@dataclass
class Figures:
    fused: Speed
    torch: Speed
    phases: dict[str, float]
    is_exact: bool
    missing: float | None


FIGURES = Figures(
    fused=Speed(250_000.0, 1),
    torch=Speed(12.5, 2),
    phases={"act": 1.0, "env": 3.0},
    is_exact=True,
    missing=None,
)


def test_nested_figures_have_dotted_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_result(lambda: FIGURES, as_json=False, cpu_seconds=0) == 0
    rows = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["fused.steps_per_s", "250k"],
        ["fused.threads", "1"],
        ["torch.steps_per_s", "12.5"],
        ["torch.threads", "2"],
        ["phases", "env 75%  act 25%"],
        ["is_exact", "yes"],
        ["missing", "-"],
    ]
