"""What a study finds: sections with figures, slopes and checks. Plain numbers and words, the same in the JSON file and on the page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

Role = Literal["measured", "second", "third", "fourth", "theory", "second theory"]
"""Which marker or line a series has on the page; theories are lines."""
Form = Literal["line", "points", "pairs", "area"]
"""Drawn as a line through all points, as points, as a line from each second point to the next one, or as the area that they enclose."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot.

    Attributes
    ----------
    name : str
        What it shows, as in the legend.
    x, y : tuple of float
        Its points.
    stderr : tuple of float or None
        Standard error of each y; None for what is computed and not measured.
    role : str
        "measured", "second", "third", "fourth", "theory" or "second theory".
    form : str
        "line", "points", "pairs" or "area".
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    stderr: tuple[float, ...] | None = None
    role: Role = "measured"
    form: Form = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes.

    Attributes
    ----------
    x_label, y_label : str
        Beside the axes.
    series : tuple of Series
        What is drawn.
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    limits : tuple of float or None
        Ends of the y axis.
    title : str
        Above the axes, where panels would not be told apart otherwise.
    """

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log: Literal["", "x", "y", "xy"] = "xy"
    limits: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels beside each other, and what they show.

    Attributes
    ----------
    caption : str
        In words.
    panels : tuple of Panel
        From left to right; series of one name look alike.
    square : bool
        Whether panels are squares on which both axes have one scale.
    """

    caption: str
    panels: tuple[Panel, ...]
    square: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers, for what is no curve.

    Attributes
    ----------
    caption : str
        In words.
    header : tuple of str
        Of the columns.
    rows : tuple of tuple of str
        As long as the header.
    """

    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Slope:
    """One exponent of a rate: the slope of log(part) in log(variable).

    Attributes
    ----------
    part, variable : str
        Which part of a risk or error, in which variable.
    measured, stderr : float
        Least-squares slope and its standard error.
    theory : float
        Slope of the document's formula on the same points.
    own : float or None
        Slope of what this estimator must have exactly, where that is known: a bound of the right order may have another constant at every
        point.
    """

    part: str
    variable: str
    measured: float
    stderr: float
    theory: float
    own: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Something that the document promises, and whether it held.

    Attributes
    ----------
    promise : str
        In words.
    measured, limit : str
        Numbers as shown.
    holds : bool
        Whether the promise was kept, judged with the Monte-Carlo error.
    """

    promise: str
    measured: str
    limit: str
    holds: bool


@dataclass(frozen=True, slots=True)
class Section:
    """One figure, table or theorem of a document.

    Attributes
    ----------
    title : str
        "Private inference (chapter 9), Theorem 9.2.2: …".
    statement : str
        What the document says.
    setup : str
        What was measured.
    figures : tuple of Figure
        At least one.
    slopes : tuple of Slope
        Exponents beside the theory's.
    checks : tuple of Check
        Promises.
    remark : str
        How to read what differs from the theory.
    tables : tuple of Table
        What is no curve.
    """

    title: str
    statement: str
    setup: str
    figures: tuple[Figure, ...]
    slopes: tuple[Slope, ...] = ()
    checks: tuple[Check, ...] = ()
    remark: str = ""
    tables: tuple[Table, ...] = ()

    def document(self) -> dict[str, Any]:
        """The section as JSON has it."""
        plain: dict[str, Any] = _lists(asdict(self))
        return plain


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def floats(values: Iterable[Any]) -> tuple[float, ...]:
    """An array as what a `Series` holds."""
    return tuple(float(value) for value in values)
