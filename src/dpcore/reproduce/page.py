"""The page of `dpcore reproduce --report`: for each section what the source says, what was measured, and how far they agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.pages.numbers import readable
from dpcore.pages.page import Pages
from dpcore.reproduce.setting import SIMULATED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpcore.reproduce.results import Section, Slope
    from dpcore.reproduce.run import Findings


class ReproducedPages(Pages):
    """The files that `reproduce --report DIR` asks for; `write` takes the findings."""

    template = "reproduce"

    def content(self, subject: Findings) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The page of some findings."""
        studies = [
            {"name": study.name, "summary": study.summary, "sections": [_section(section) for section in sections]}
            for study, sections in subject.studies.items()
        ]
        _number(studies)
        return subject.document(), {"studies": studies, "alarm": SIMULATED}


def _section(section: Section) -> dict[str, Any]:
    """What the page shows of one section."""
    from dpcore.reproduce.plots import figure_plot

    place, _, claim = section.title.partition(": ")
    figures = [{"caption": figure.caption, "plot": figure_plot(figure)} for figure in section.figures]
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
