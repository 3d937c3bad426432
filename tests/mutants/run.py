"""`make mutants`: plant one bug at a time in a copy of the tree and run the tests against it.

The copy stays in one place between runs, because compiled kernels are cached by path. Every result
is recorded at once in `results.json`, so that an interrupted run continues where it stopped, and
`tests/mutants.md` is written from them. A mutant that its own tests do not notice gets those of the
folder that mirrors its package.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.mutants.catalog import GAPS, RESULTS, ROOT, TABLE, Mutant, read_catalog

COPIED = ("briskrl", "tests", "benchmarks", "docs", "examples", "pyproject.toml")
COPIED_FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", "mkdocs.yml")
TIMEOUT_S, CLEAN_TIMEOUT_S = 1800.0, 7200.0
"""Tests that take longer with a bug hang, which counts as noticed; all tests without any."""
CAUGHT, SURVIVED, INVALID = "caught", "survived", "invalid"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?\.py(?:::\S+)?)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Result:
    """How the tests dealt with one mutant."""

    key: str
    outcome: str
    by: str
    """The first test that failed, or why there is none."""
    date: str


@dataclass(frozen=True, slots=True)
class PytestRun:
    """One call of pytest."""

    failed: tuple[str, ...] = ()
    """Tests that failed, in order."""
    problem: str = ""
    """Why the tests could not run; empty if they did."""
    timed_out: bool = False

    @property
    def passed(self) -> bool:
        """Whether every test passed."""
        return not (self.failed or self.problem)


class Tree:
    """A copy of the repository in a temporary folder, with a kernel cache of its own."""

    def __init__(self, work: Path) -> None:
        work.mkdir(mode=0o700, exist_ok=True)
        self.path = work / "tree"
        self._cache = work / "cache"
        self.failing: tuple[str, ...] = ()
        """Tests that fail without a bug; they notice nothing."""

    def refresh(self) -> None:
        """Make the copy equal to the repository; unchanged files keep their times."""
        for name in (*COPIED, *COPIED_FILES):
            source, target = ROOT / name, self.path / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                _update(source, target)
                continue
            wanted = {path.relative_to(ROOT) for path in _files(source)}
            for path in wanted:
                (self.path / path).parent.mkdir(parents=True, exist_ok=True)
                _update(ROOT / path, self.path / path)
            for path in _files(target):
                if path.relative_to(self.path) not in wanted:
                    path.unlink()

    def test(self, tests: Sequence[str]) -> PytestRun:
        """Run tests until the first failure, without those that fail anyway."""
        without = [f"--deselect={name}" for name in self.failing]
        return self._pytest(["-x", *without, *tests], TIMEOUT_S)

    def find_failing(self, tests: Sequence[str]) -> PytestRun:
        """Run tests without a bug; those that fail are left out from now on."""
        run = self._pytest(tests, CLEAN_TIMEOUT_S)
        self.failing = tuple({*self.failing, *(_function(name) for name in run.failed)})
        return run

    def _pytest(self, arguments: Sequence[str], timeout_s: float) -> PytestRun:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(self._cache),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return PytestRun((f"no end within {timeout_s:.0f} s",), timed_out=True)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode == 0:
            return PytestRun()
        if process.returncode < 0:
            return PytestRun((f"the tests died of {signal.Signals(-process.returncode).name}",))
        found = tuple(_FAILED.findall(output))
        if process.returncode != 1 or not found:
            return PytestRun(problem=output.strip()[-300:])
        return PytestRun(found)

    def kernel_caches(self) -> set[Path]:
        """Folders of compiled kernels, one per state of the sources."""
        return set((self._cache / "briskrl").glob("kernels-*"))


def _function(test: str) -> str:
    """A test without its parameters."""
    return test.partition("[")[0]


def _files(folder: Path) -> Iterable[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]


def _update(source: Path, target: Path) -> None:
    """Copy a file unless it is the same already: Numba's cache depends on its time."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        shutil.copy2(source, target)


def examine(tree: Tree, mutant: Mutant) -> Result:
    """Plant one bug, run the tests against it, and remove it."""
    path = tree.path / mutant.file
    original, times = path.read_text(encoding="utf-8"), path.stat()
    known = tree.kernel_caches()
    path.write_text(mutant.apply(original), encoding="utf-8")
    try:
        run = tree.test(mutant.tests)
        if run.passed:
            others = tree.test([mutant.mirrored_folder(tree.path)])
            # A whole folder may take long for other reasons.
            run = run if others.timed_out else others
    finally:
        path.write_text(original, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        for folder in tree.kernel_caches() - known:
            shutil.rmtree(folder)
    outcome = SURVIVED if run.passed else INVALID if run.problem else CAUGHT
    by = run.failed[0] if run.failed else run.problem
    return Result(mutant.key, outcome, by, date.today().isoformat())


def read_results() -> dict[str, Result]:
    """Results by the id of the mutant."""
    if not RESULTS.exists():
        return {}
    return {name: Result(**row) for name, row in json.loads(RESULTS.read_text()).items()}


def write_results(results: dict[str, Result], catalog: Sequence[Mutant]) -> None:
    """Save the results, and the table of them."""
    kept = {mutant.id: results[mutant.id] for mutant in catalog if mutant.id in results}
    rows = {name: asdict(result) for name, result in kept.items()}
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    TABLE.write_text(_table(kept, catalog), encoding="utf-8")


def _table(results: dict[str, Result], catalog: Sequence[Mutant]) -> str:
    new = [mutant for mutant in catalog if mutant.list != GAPS]
    old = [mutant for mutant in catalog if mutant.list == GAPS]
    lines = [
        "# Mutants",
        "",
        "Bugs planted one at a time, and the test that noticed each: `make mutants` runs them and",
        "writes this table; the bugs are in `tests/mutants/`. To add one, add an entry to a list",
        "there and run it again.",
        "",
        f"{_noticed(new, results)} new bugs were noticed, {_unnoticed(new, results)} were not, and "
        f"{sum(mutant.id not in results for mutant in new)} wait to be run. Of {len(old)} that an",
        f"earlier suite had missed, {_noticed(old, results)} were noticed.",
        "",
        "| bug | file | what it breaks | noticed by | date |",
        "| --- | --- | --- | --- | --- |",
    ]
    for mutant in catalog:
        result = results.get(mutant.id)
        if result is None:
            lines.append(f"| {mutant.id} | `{mutant.file}` | {mutant.breaks} | not run | |")
            continue
        by = f"`{result.by}`" if result.outcome == CAUGHT else f"**{result.outcome}**"
        lines.append(f"| {mutant.id} | `{mutant.file}` | {mutant.breaks} | {by} | {result.date} |")
    return "\n".join(lines) + "\n"


def _noticed(mutants: Sequence[Mutant], results: dict[str, Result]) -> int:
    found = (results.get(mutant.id) for mutant in mutants)
    return sum(result is not None and result.outcome == CAUGHT for result in found)


def _unnoticed(mutants: Sequence[Mutant], results: dict[str, Result]) -> int:
    return sum(mutant.id in results for mutant in mutants) - _noticed(mutants, results)


def _pending(catalog: Sequence[Mutant], results: dict[str, Result], again: bool) -> list[Mutant]:
    """Mutants without a result; those in compiled code last, because they take longest."""

    def is_done(mutant: Mutant) -> bool:
        found = results.get(mutant.id)
        return found is not None and found.key == mutant.key and found.outcome == CAUGHT

    waiting = [mutant for mutant in catalog if again or not is_done(mutant)]
    return sorted(waiting, key=lambda mutant: "/kernels/" in mutant.file)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run the mutants that have no result yet; returns 1 if any is not noticed."""
    parser = argparse.ArgumentParser(description="Plant bugs and run the tests against them.")
    parser.add_argument("ids", nargs="*", help="mutants to run; all without a result by default")
    parser.add_argument("--again", action="store_true", help="run those with a result, too")
    parser.add_argument("--work", type=Path, help="folder for the copy of the tree")
    parser.add_argument(
        "--unverified",
        action="store_true",
        help="do not run the tests that noticed a bug without any afterwards",
    )
    args = parser.parse_args()
    catalog, results = read_catalog(), read_results()
    chosen = catalog
    if args.ids:
        by_id = {mutant.id: mutant for mutant in catalog}
        chosen = [by_id[name] for name in args.ids]
    pending = chosen if args.ids else _pending(catalog, results, args.again)
    tree = Tree(args.work or Path(tempfile.gettempdir()) / f"briskrl-mutants-{os.getuid()}")
    tree.refresh()
    while pending:
        _examine_all(tree, pending, results, catalog)
        pending = [] if args.unverified else _unsound(tree, chosen, results)
    write_results(results, catalog)
    left = [m.id for m in catalog if results.get(m.id) is None or results[m.id].outcome != CAUGHT]
    _say(f"not noticed: {', '.join(left)}" if left else "all were noticed")
    return 1 if left else 0


def _examine_all(
    tree: Tree, pending: Sequence[Mutant], results: dict[str, Result], catalog: Sequence[Mutant]
) -> None:
    for number, mutant in enumerate(pending, 1):
        begin = monotonic()
        results[mutant.id] = result = examine(tree, mutant)
        write_results(results, catalog)
        _say(
            f"{number}/{len(pending)} {mutant.id}: {result.outcome} by {result.by or 'no test'} "
            f"({monotonic() - begin:.0f} s)"
        )


def _unsound(tree: Tree, mutants: Sequence[Mutant], results: dict[str, Result]) -> list[Mutant]:
    """Mutants noticed by a test that fails without a bug, too; it is left out from then on."""
    caught = [m for m in mutants if m.id in results and results[m.id].outcome == CAUGHT]
    tests = sorted({_function(results[m.id].by) for m in caught if "::" in results[m.id].by})
    if not tests:
        return []
    _say(f"running the {len(tests)} tests that noticed a bug without any")
    run = tree.find_failing(tests)
    if run.problem:
        raise SystemExit(run.problem)
    for name in run.failed:
        _say(f"left out, because it fails without a bug: {name}")
    return [m for m in caught if _function(results[m.id].by) in tree.failing]


if __name__ == "__main__":
    sys.exit(main())
