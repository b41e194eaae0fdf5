"""The page of `dpcore reproduce --report`: for each section what the source says, what was measured, and how far they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError
from dpcore.pages.numbers import readable
from dpcore.pages.page import EXTRA_MISSING, Pages
from dpcore.reproduce.setting import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dpcore.reproduce.results import Section, Slope
    from dpcore.reproduce.run import Findings


class ReproducedPages:
    """The files that `experiment --report DIR` asks for.

    Parameters
    ----------
    folder : Path
        Made if absent.
    name : str
        Of both files, without their endings.

    Raises
    ------
    JobError
        If matplotlib or jinja2 is not installed.
    StorageError
        If the folder cannot be written.
    """

    def __init__(self, folder: Path, name: str) -> None:
        try:
            from dpcore.reproduce import plots
        except ModuleNotFoundError:
            raise JobError(EXTRA_MISSING) from None
        self._plots = plots
        self._pages = Pages(folder, name, "reproduce")
        self.paths = self._pages.paths

    def write(self, findings: Findings) -> None:
        """Write both files, replacing those of an earlier run."""
        document = findings.document()
        studies = [
            {"name": study.name, "summary": study.summary, "sections": [self._section(section) for section in sections]}
            for study, sections in findings.studies.items()
        ]
        _number(studies)
        self._pages.write(document, studies=studies, alarm=SIMULATED)

    def _section(self, section: Section) -> dict[str, Any]:
        """What the page shows of one section."""
        place, _, claim = section.title.partition(": ")
        figures = [{"caption": figure.caption, "plot": self._plots.figure_plot(figure)} for figure in section.figures]
        slopes = [slope_row(slope) for slope in section.slopes]
        kept = sum(check.holds for check in section.checks)
        return {
            "title": section.title,
            "place": place,
            "claim": claim,
            "section": section,
            "figures": figures,
            "slopes": slopes,
            "own": any(slope.own is not None for slope in section.slopes),
            "verdict": f"{kept} of {len(section.checks)}" if section.checks else "–",
        }


def slope_row(slope: Slope) -> dict[str, str]:
    """One line of the table of slopes."""
    measured, error = readable([slope.measured, slope.stderr], slope.stderr, percent=False)
    theory, own = (None if value is None else f"{value:.2f}".replace("-", "−") for value in (slope.theory, slope.own))
    return {
        "part": slope.part,
        "variable": slope.variable,
        "measured": measured,
        "stderr": error,
        "theory": theory or "",
        "own": own or "–",
    }


def _number(studies: Sequence[Mapping[str, Any]]) -> None:
    sections = [section for study in studies for section in study["sections"]]
    for number, section in enumerate(sections, 1):
        section["anchor"] = f"section-{number}"
