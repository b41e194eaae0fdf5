"""The documents that studies measure again, by author and title. docs/literature.md has the same keys."""

from __future__ import annotations

import re

from dpcore._dataclasses import dataclass

KEY = re.compile(r"[^()]+\([^()]*\)")
"""A work as citations name it: everything up to its year or number in parentheses."""
LABELS = {
    "Satz": "theorem", "Beispiel": "example", "Beispiele": "examples", "Abbildung": "figure", "Korollar": "corollary",
    "Aufgabe": "exercise", "Bemerkung": "remark", "Tabelle": "table", "Abschnitt": "section", "Behauptung": "claim",
}  # fmt: skip
"""German labels of Steinberger (2019), and their English words."""
LABEL = re.compile(rf"\b(?:{'|'.join(LABELS)})\b")


@dataclass(frozen=True, slots=True)
class Source:
    """A document.

    Attributes
    ----------
    key : str
        The work as citations name it.
    authors : str
        Its authors; empty if the text names none.
    title : str
        Its title, in the original language.
    english : str
        A translation of the title; empty for an English title.
    published : str
        Where and when it was published.
    """

    key: str
    authors: str
    title: str
    english: str = ""
    published: str = ""


_ALL = (
    Source("Mechanisms as experiments (2014)", "", "Mechanisms as statistical experiments", "", "23 October 2014; names no author"),
    Source(
        "Private inference (chapter 9)", "", "第九章 差分隐私统计推断", "Chapter 9: Statistical inference under differential privacy",
        "chapter of a textbook; names no author and no year",
    ),
    Source(
        "Steinberger (2019)", "Lukas Steinberger", "Vorlesungsskriptum zu Statistisches Schätzen unter ‘differential privacy’",
        "Lecture notes on statistical estimation under differential privacy", "University of Freiburg, 11 February 2019",
    ),
    Source("Stemmer (lecture 6)", "Uri Stemmer", "הרצאה 6: יציבות", "Lecture 6: Stability", "lecture notes without a year"),
    Source(
        "Wasserman & Zhou (2010)", "Larry Wasserman and Shuheng Zhou", "A statistical framework for differential privacy", "",
        "Journal of the American Statistical Association 105, pages 375–389, 2010",
    ),
)  # fmt: skip
SOURCES = {source.key: source for source in _ALL}


def source_of(title: str) -> Source:
    """Return the document of a section.

    Parameters
    ----------
    title : str
        "Steinberger (2019), Satz 3.13: …".

    Examples
    --------
    >>> source_of("Steinberger (2019), Satz 3.13: the best bit of a record").authors
    'Lukas Steinberger'
    """
    found = KEY.match(title)
    key = found[0] if found else title.partition(":")[0]
    return SOURCES.get(key, Source(key, "", key))


def place_and_claim(title: str) -> tuple[str, str]:
    """Return where in its document a section is, with English words for German labels, and what it claims.

    Parameters
    ----------
    title : str
        Of the section.

    Examples
    --------
    >>> place_and_claim("Steinberger (2019), Satz 3.13: the best bit of a record")
    ('Satz (theorem) 3.13', 'the best bit of a record')
    """
    head, _, claim = title.partition(": ")
    return translated(head.removeprefix(source_of(title).key).removeprefix(", ")), claim


def translated(place: str) -> str:
    """Return labels and their numbers, with the English words of German labels.

    Parameters
    ----------
    place : str
        Labels and numbers.

    Examples
    --------
    >>> translated("Aufgabe 2.8 and Bemerkung 2.11")
    'Aufgabe (exercise) 2.8 and Bemerkung (remark) 2.11'
    """
    return LABEL.sub(lambda found: f"{found[0]} ({LABELS[found[0]]})", place)
