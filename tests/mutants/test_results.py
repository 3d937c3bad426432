"""The recorded results of the mutants."""

from __future__ import annotations

from tests.mutants.catalog import GAPS, TABLE, read_catalog
from tests.mutants.run import CAUGHT, read_results

CATALOG = read_catalog()


def test_the_suite_noticed_nearly_all_new_bugs_and_all_that_it_missed_before() -> None:
    results = read_results()
    known = {m.id: results[m.id] for m in CATALOG if m.id in results}
    new = [known[m.id] for m in CATALOG if m.id in known and m.list != GAPS]
    noticed = [result for result in new if result.outcome == CAUGHT]
    assert len(noticed) >= 57
    assert len(new) - len(noticed) <= 3
    assert all(known[m.id].outcome == CAUGHT for m in CATALOG if m.list == GAPS)


def test_results_are_those_of_the_present_mutants_and_all_are_in_the_table() -> None:
    keys, text = {mutant.id: mutant.key for mutant in CATALOG}, TABLE.read_text(encoding="utf-8")
    for name, result in read_results().items():
        assert keys.get(name) == result.key
    for mutant in CATALOG:
        assert f"| {mutant.id} |" in text
