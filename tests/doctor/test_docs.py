"""The documentation of the doctor matches its behavior."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from briskrl.doctor import examination
from briskrl.doctor.report import phrases

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "doctor.md").read_text()


@pytest.fixture
def own_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("own_threads")
def test_the_example_of_a_custom_loop_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examination, "OBSERVED_S", 1.0)
    monkeypatch.setattr(examination, "AGAIN_S", 0.2)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    short = code.replace("seconds=30", "seconds=2")
    assert short != code
    exec(compile(short, "docs/how-to/doctor.md", "exec"), {"__name__": "example"})
    text = capsys.readouterr().out
    assert "Doctor's report of your loop" in text
    # The fault is large enough to be found in a short time.
    assert "storing transitions takes" in text


def test_the_quoted_report_has_the_real_section_titles() -> None:
    for title in (
        phrases.PHASES,
        phrases.FINDINGS,
        phrases.TRADE_OFFS,
        phrases.NO_GAIN,
        phrases.MISSING,
        phrases.NOT_APPLICABLE,
        phrases.VERIFICATION,
    ):
        assert f"\n{title}\n" in PAGE
