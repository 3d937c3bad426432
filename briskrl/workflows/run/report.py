"""`report.html` and `report.md`: one page about a run, or about several runs compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from briskrl.plots import save
from briskrl.training.storage.atomic_files import make_folder, replace, storage_errors
from briskrl.training.storage.own_files import check_folder
from briskrl.workflows.run.comparison import comparison_sections
from briskrl.workflows.run.outcome import Outcome
from briskrl.workflows.run.report_document import Section, as_html, as_markdown, pictures_of
from briskrl.workflows.run.report_sections import sections_of

HTML, MARKDOWN, FIGURES = "report.html", "report.md", "figures"
COMPARED = Path("workflow-report")
"""Where reports about several runs go by default."""


def write_report(outcomes: Sequence[Outcome], *, out: str | Path | None = None) -> list[Path]:
    """Write a report; returns its files.

    Args:
        outcomes: The runs.
        out: The folder; by default that of a single run, or `workflow-report`.

    Raises:
        StorageError: It cannot be written.
    """
    if len(outcomes) == 1:
        folder = outcomes[0].info.folder if out is None else Path(out)
        title = f"Workflows: {outcomes[0].info.folder.name}"
        sections = list(sections_of(outcomes[0]))
    else:
        folder = COMPARED if out is None else Path(out)
        title = f"Workflows: {len(outcomes)} runs"
        sections = list(comparison_sections(outcomes))
    return _write(folder, title, sections)


def _write(folder: Path, title: str, sections: Sequence[Section]) -> list[Path]:
    figures = folder / FIGURES
    check_folder(figures)
    with storage_errors(f"write {folder}"):
        make_folder(folder)
        make_folder(figures)
        for picture in pictures_of(sections):
            path = figures / f"{picture.name}.svg"
            # A link in its place would lead elsewhere.
            path.unlink(missing_ok=True)
            save(picture.figure, path)
        pages = {
            HTML: as_html(title, sections),
            MARKDOWN: as_markdown(title, sections, figures=FIGURES),
        }
        for name, text in pages.items():
            replace(folder / name, text.encode(), durable=False)
    return [folder / name for name in pages]
