"""The page of `dpcore reproduce --report`: statements of the documents, measurements beside them, identities and findings."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from dpcore.pages.numbers import readable
from dpcore.pages.page import Pages
from dpcore.reproduce.items import known_items
from dpcore.reproduce.mathematics import mathematics
from dpcore.reproduce.setting import SIMULATED
from dpcore.reproduce.sources import SOURCES, place_and_claim, translated

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dpcore.reproduce.items import Item
    from dpcore.reproduce.results import Check, Section, Slope, Table
    from dpcore.reproduce.run import Findings

NUMBER = re.compile(r"[−+<>≤≥-]?\s*[\d,.]+(e[−+-]?\d+)?( [±>\u202f].*)?|[–∞=]|NA|none")
"""Of a cell that belongs into a column of numbers."""
KINDS = {
    "identity": ("Identities", "These hold for every data set and seed, exactly or up to rounding. One that fails is a bug in dpcore."),
    "finding": ("Findings", "These are measured, with a statistical error. A true one can fail, by a rare chance."),
}


class ReproducedPages(Pages):
    """The files of `dpcore reproduce --report DIR`; `write` takes the findings."""

    template = "reproduce"

    def content(self, subject: Findings) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Return the document and the content of the page.

        Parameters
        ----------
        subject : Findings
            The results of all studies of the page.

        Returns
        -------
        document : mapping
            The JSON file.
        shown : dict
            The studies, the items of all documents, and the warning at the top.
        """
        studies = [
            {
                "name": study.name,
                "summary": formulas(study.summary),
                "source": study.source,
                "sections": [_section(section) for section in sections],
            }
            for study, sections in subject.studies.items()
        ]
        for number, section in enumerate((section for study in studies for section in _sections(study)), 1):
            section["anchor"] = f"section-{number}"
        anchors = {section["title"]: section["anchor"] for study in studies for section in _sections(study)}
        return subject.document(), {"studies": studies, "lists": item_lists(anchors), "alarm": SIMULATED}


def _sections(study: Mapping[str, Any]) -> list[dict[str, Any]]:
    sections: list[dict[str, Any]] = study["sections"]
    return sections


def _section(section: Section) -> dict[str, Any]:
    from dpcore.reproduce.plots import figure_plot

    place, claim = place_and_claim(section.title)
    return {
        "title": section.title,
        "place": place,
        "claim": formulas(claim),
        "statement": formulas(section.statement),
        "setup": formulas(section.setup),
        "remark": formulas(section.remark),
        "figures": [{"caption": formulas(figure.caption), "plot": figure_plot(figure)} for figure in section.figures],
        "tables": [_table(table) for table in section.tables],
        "slopes": [slope_row(slope) for slope in section.slopes],
        "own": any(slope.own is not None for slope in section.slopes),
        "checks": [kind for kind in (_kind(kind, section.checks) for kind in KINDS) if kind["rows"]],
        "verdicts": {kind: _verdict(kind, section.checks) for kind in KINDS},
    }


def item_lists(anchors: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the items of each document for the template.

    Parameters
    ----------
    anchors : mapping
        From the title of a section to its place on the page. An item whose section is not on the page has no link.
    """
    return [
        {"source": SOURCES[key], "rows": [_item(item, anchors) for item in items], "states": Counter(item.state for item in items)}
        for key, items in known_items().items()
    ]


def _item(item: Item, anchors: Mapping[str, str]) -> dict[str, Any]:
    return {
        "number": translated(item.number),
        "title": formulas(item.title),
        "state": item.state,
        "where": [breakable(name) for name in item.where],
        "reason": formulas(item.reason),
        "anchors": [anchors[title] for title in item.of(anchors)],
        "study": item.study,
        "test": item.test,
    }


def formulas(text: str) -> Any:
    """Return a text with its formulas, and names between backticks, as markup for a template."""
    from markupsafe import Markup

    parts = text.split("`")
    if len(parts) % 2 == 0:  # a single backtick is a character
        parts = [text]
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else Markup(mathematics(part))  # noqa: S704 - everything else is escaped
        for place, part in enumerate(parts)
    )


def breakable(name: str) -> Any:
    """Return a name of Python as markup that goes on in a new line after a point or an underscore.

    Parameters
    ----------
    name : str
        Public name.
    """
    from markupsafe import Markup

    return Markup("<wbr>").join(re.split(r"(?<=[._])", name))


def _table(table: Table) -> dict[str, Any]:
    numbers = [all(NUMBER.fullmatch(cell) for cell in column) for column in zip(*table.rows, strict=True)]
    return {
        "caption": formulas(table.caption),
        "header": [(formulas(name), number) for name, number in zip(table.header, numbers, strict=True)],
        "rows": [[(formulas(cell), number) for cell, number in zip(row, numbers, strict=True)] for row in table.rows],
    }


def _kind(kind: str, checks: Sequence[Check]) -> dict[str, Any]:
    name, meaning = KINDS[kind]
    rows = [
        {"claim": formulas(check.claim), "measured": formulas(check.measured), "limit": formulas(check.limit), "holds": check.holds}
        for check in checks
        if check.kind == kind
    ]
    return {"kind": kind, "name": name, "meaning": meaning, "rows": rows}


def _verdict(kind: str, checks: Sequence[Check]) -> Mapping[str, Any]:
    """Return how many checks of a kind hold, as text, and whether all do."""
    every = [check.holds for check in checks if check.kind == kind]
    return {"text": f"{sum(every)} of {len(every)}" if every else "–", "holds": all(every), "any": bool(every)}


def slope_row(slope: Slope) -> dict[str, Any]:
    """Return one line of the table of slopes.

    Parameters
    ----------
    slope : Slope
        The slope.
    """
    if slope.stderr:
        measured, error = readable([slope.measured, slope.stderr], slope.stderr, percent=False)
    else:  # computed
        measured, error = f"{slope.measured:.3f}".replace("-", "−"), "–"
    theory, own = (None if value is None else f"{value:.2f}".replace("-", "−") for value in (slope.theory, slope.own))
    return {
        "part": formulas(slope.part),
        "variable": formulas(slope.variable),
        "measured": measured,
        "stderr": error,
        "theory": theory or "",
        "own": own or "–",
    }
