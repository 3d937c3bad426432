"""Searches: the same choices again, also after an interruption at any moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from briskrl.cluster.settings import ExecutorConfig
from briskrl.cluster.sweep import search as module
from briskrl.cluster.sweep.plan import make_plan, sweep_info
from briskrl.cluster.sweep.search import (
    JOURNAL,
    MILESTONES,
    SweepSearch,
    check_installed,
    load_study,
)
from briskrl.cluster.sweep.settings import SweepConfig
from briskrl.core.errors import ConfigError, RunFolderError
from tests.cluster.sweep.small_sweeps import tiny_config

SPACE = {"range": {"lr": "1e-4..1e-2:log", "batch_size": "16..64"}, "choice": {"net": "8|8,8"}}


def open_search(folder: Path, seed: int = 0, **options: Any) -> SweepSearch:
    own = {"search": "tpe", "sweep_dir": str(folder), **SPACE, **options}
    info = sweep_info(tiny_config(seed=seed), SweepConfig(**own), ExecutorConfig())
    return SweepSearch(info, make_plan(info).space)


def value_of(point: dict[str, Any]) -> float:
    """A made-up result that depends on the settings."""
    return -abs(point["lr"] - 2e-3) * 1e3 + 0.01 * point["batch_size"] + len(point.get("net", ()))


def choose(search: SweepSearch, numbers: range) -> list[dict[str, Any]]:
    points = []
    for number in numbers:
        points.append(search.ask(number))
        search.end(number, value_of(points[-1]))
    return points


def folder_in(parent: Path, name: str) -> Path:
    folder = parent / name
    folder.mkdir()
    return folder


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return choose(open_search(tmp_path_factory.mktemp("whole")), range(16))


def test_choices_are_in_the_space_and_depend_on_the_seed(tmp_path: Path, uninterrupted):
    for point in uninterrupted:
        assert 1e-4 <= point["lr"] <= 1e-2
        assert isinstance(point["batch_size"], int)
        assert 16 <= point["batch_size"] <= 64
        assert point["net"] in [(8,), (8, 8)]
    assert choose(open_search(tmp_path, seed=1), range(3)) != uninterrupted[:3]


@pytest.mark.parametrize("moment", ["asked", "asking", "torn", "told"])
def test_a_search_that_was_killed_chooses_what_it_would_have_chosen(
    tmp_path: Path, uninterrupted: list[dict[str, Any]], moment: str
):
    # 12 trials are more than the random ones that begin a search.
    first = open_search(tmp_path)
    assert choose(first, range(12)) == uninterrupted[:12]
    if moment == "asked":
        # The ledger does not know of this one yet.
        first.ask(12)
    elif moment == "asking":
        first._study.ask()
    elif moment == "torn":
        with (tmp_path / JOURNAL).open("ab") as file:
            file.write(b'{"op_code":4,"worker_')
    second = open_search(tmp_path)
    second.reconcile(range(12))
    assert choose(second, range(12, 16)) == uninterrupted[12:]


def test_an_end_that_only_the_ledger_has_is_reported_once(tmp_path: Path, uninterrupted):
    first = open_search(tmp_path)
    choose(first, range(11))
    point = first.ask(11)
    second = open_search(tmp_path)
    second.reconcile(range(12))
    for _ in range(2):
        second.end(11, value_of(point))
    assert choose(second, range(12, 16)) == uninterrupted[12:]
    assert [trial.value for trial in load_study(tmp_path).trials][11] == value_of(point)


def test_failed_and_pruned_trials_have_no_value(tmp_path: Path):
    search = open_search(tmp_path)
    for number in range(3):
        search.ask(number)
    search.end(0, 1.0)
    search.end(1, None)
    search.end(2, None, pruned=True)
    states = [trial.state.name for trial in load_study(tmp_path).trials]
    assert states == ["COMPLETE", "FAIL", "PRUNED"]


def test_a_journal_that_lacks_a_trial_is_an_error(tmp_path: Path):
    choose(open_search(tmp_path), range(2))
    with pytest.raises(RunFolderError, match="lacks trial 2"):
        open_search(tmp_path).reconcile(range(3))


def test_a_damaged_journal_is_an_error(tmp_path: Path):
    choose(open_search(tmp_path), range(2))
    path = tmp_path / JOURNAL
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    with pytest.raises(RunFolderError, match=f"{JOURNAL} cannot be read"):
        open_search(tmp_path)


def test_a_stale_lock_of_optuna_does_not_block(tmp_path: Path):
    choose(open_search(tmp_path), range(2))
    (tmp_path / f"{JOURNAL}.lock").touch()
    assert choose(open_search(tmp_path), range(2, 3))


@pytest.mark.parametrize("prune", ["median", "hyperband"])
def test_trials_that_score_low_are_pruned_and_good_ones_are_not(tmp_path: Path, prune: str):
    search = open_search(tmp_path, prune=prune)
    pruned = []
    for number in range(24):
        search.ask(number)
        score = float(number % 6)
        milestones = range(1, MILESTONES)
        if any(search.report(number, milestone, score) for milestone in milestones):
            pruned.append(int(score))
            search.end(number, None, pruned=True)
        else:
            search.end(number, score)
    assert pruned
    assert 5 not in pruned
    assert 0 in pruned


def test_a_milestone_is_reported_once_and_survives_a_kill(tmp_path: Path):
    first = open_search(tmp_path, prune="median")
    first.ask(0)
    assert not first.report(0, 1, 0.5)
    second = open_search(tmp_path, prune="median")
    second.reconcile([0])
    assert not second.report(0, 1, 0.7)
    assert load_study(tmp_path).trials[0].intermediate_values == {1: 0.5}


@settings(max_examples=8)
@given(st.lists(st.booleans(), min_size=6, max_size=6))
def test_failures_do_not_change_what_is_repeated(tmp_path_factory, failures):
    """The same results in the same order give the same choices, whichever trials fail."""
    found = []
    for _ in range(2):
        search = open_search(tmp_path_factory.mktemp("search"), search="random")
        points = []
        for number, fails in enumerate(failures):
            points.append(search.ask(number))
            search.end(number, None if fails else value_of(points[-1]))
        found.append(points)
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["cmaes", "qmc", "gp"])
def test_other_samplers_repeat_their_choices(tmp_path: Path, name: str):
    for package in module._PACKAGES[name]:
        pytest.importorskip(package)
    numbers = {"choice": {}, "search": name}
    whole = choose(open_search(folder_in(tmp_path, "a"), **numbers), range(14))
    folder = folder_in(tmp_path, "b")
    parts = choose(open_search(folder, **numbers), range(6))
    again = open_search(folder, **numbers)
    again.reconcile(range(6))
    assert [*parts, *choose(again, range(6, 14))] == whole


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs the package optuna.*pip install 'briskrl\[sweep"):
        check_installed("tpe")
