"""The page about the doctor does what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from briskrl.doctor import examination as examine
from briskrl.doctor.report import phrases as words

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "doctor.md").read_text()


@pytest.fixture
def own_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("own_threads")
def test_the_example_of_a_loop_of_ones_own_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "WATCHED_S", 1.0)
    monkeypatch.setattr(examine, "AGAIN_S", 0.2)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    short = code.replace("seconds=30", "seconds=2")
    assert short != code
    exec(compile(short, "docs/how-to/doctor.md", "exec"), {"__name__": "example"})
    told = capsys.readouterr().out
    assert "Doctor's report of your loop" in told
    # It is slow enough for the doctor to see why, however little time there is.
    assert "storing transitions takes" in told


def test_reports_are_quoted_with_the_titles_that_they_have() -> None:
    for title in (
        words.PHASES,
        words.FINDINGS,
        words.TRADE_OFFS,
        words.NO_CURE,
        words.MISSING,
        words.IDLE,
        words.PROOF,
    ):
        assert f"\n{title}\n" in PAGE
