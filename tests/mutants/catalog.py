"""The list of mutants: small bugs that the test suite must notice.

A mutant is one exact replacement in a source file. The lists are the TOML files beside this one.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
RESULTS = FOLDER / "results.json"
TABLE = FOLDER.parent / "mutants.md"
GAPS = "known_gaps"
"""The list of bugs that an earlier suite did not notice; they do not count as new ones."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug."""

    id: str
    file: str
    """Path in the repository."""
    breaks: str
    """What a user would see."""
    tests: tuple[str, ...]
    """Tests that should fail, as arguments of pytest."""
    old: str
    """Text that occurs exactly once in the file."""
    new: str
    list: str
    """Name of the list that it is from."""

    @property
    def key(self) -> str:
        """Hash of the replacement: a result counts as long as it is the same."""
        return blake2b(f"{self.file}\0{self.old}\0{self.new}".encode(), digest_size=8).hexdigest()

    def apply(self, source: str) -> str:
        """The source with the bug.

        Raises:
            ValueError: The old text does not occur exactly once.
        """
        if source.count(self.old) != 1:
            raise ValueError(f"{self.id}: found {source.count(self.old)} times in {self.file}")
        return source.replace(self.old, self.new)

    def mirrored_folder(self, root: Path = ROOT) -> str:
        """The folder of tests that mirrors the package of the file."""
        folder = Path("tests", *Path(self.file).parent.parts[1:])
        while not (root / folder).is_dir():
            folder = folder.parent
        return str(folder)


def read_catalog() -> list[Mutant]:
    """All mutants, in the order of the lists."""
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
            tests = tuple(entry.pop("tests"))
            found.append(Mutant(**entry, tests=tests, list=path.stem))
    return found
