"""The list of mutants fits the sources."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.catalog import GAPS, ROOT, Mutant, read_catalog

CATALOG = read_catalog()
PACKAGES = {
    *("core", "compiler", "parallel", "nets", "fused", "memory", "envs", "algos", "training"),
    *("plots", "cluster", "bench", "tuning", "doctor", "cli"),
}


@pytest.mark.parametrize("mutant", CATALOG, ids=lambda mutant: mutant.id)
def test_the_old_text_occurs_once_and_the_new_one_is_valid_code(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1
    changed = mutant.apply(source)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


@pytest.mark.parametrize("mutant", CATALOG, ids=lambda mutant: mutant.id)
def test_the_named_tests_exist(mutant: Mutant) -> None:
    assert mutant.tests
    for test in mutant.tests:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), test
        assert not name or f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
    assert (ROOT / mutant.mirrored_folder()).is_dir()


def test_there_are_sixty_new_bugs_over_all_packages_and_families() -> None:
    assert len({mutant.id for mutant in CATALOG}) == len(CATALOG)
    assert sum(mutant.list != GAPS for mutant in CATALOG) >= 60
    assert {mutant.file.split("/")[1] for mutant in CATALOG} == PACKAGES
    families = {mutant.file.split("/")[2] for mutant in CATALOG if "/envs/" in mutant.file}
    assert families >= {"snake", "cartpole", "cage2", "wildfire", "gym"}
    assert any("/storage/" in mutant.file for mutant in CATALOG)
