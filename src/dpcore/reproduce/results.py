"""Results of studies: sections with figures, slopes and checks. The JSON file and the page have the same numbers and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any, Literal

from dpcore._dataclasses import dataclass

Kind = Literal["identity", "finding"]
"""An identity holds for every data set and seed, exactly or up to rounding; a finding is measured, with a statistical error."""
Role = Literal["measured", "second", "third", "fourth", "theory", "second theory"]
"""Marker or line of a series on the page; theories are lines."""
Form = Literal["line", "points", "pairs", "area"]
"""How points are drawn: as a line through all, as points, as a line from each second point to the next one, or as the enclosed area."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot.

    Attributes
    ----------
    name : str
        Text of the legend.
    x, y : tuple of float
        Coordinates of the points.
    stderr : tuple of float or None
        Standard error of each y; None for computed values.
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
        Labels of the axes.
    series : tuple of Series
        Series to draw.
    log : str
        Which axes are logarithmic: "", "x", "y" or "xy".
    limits : tuple of float or None
        Ends of the y axis; None chooses them.
    title : str
        Title above the axes, where the panels of a figure need one.
    """

    x_label: str
    y_label: str
    series: tuple[Series, ...]
    log: Literal["", "x", "y", "xy"] = "xy"
    limits: tuple[float, float] | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Panels beside each other, with a caption.

    Attributes
    ----------
    caption : str
        What the panels show, in words.
    panels : tuple of Panel
        Panels from left to right. Series with one name look alike.
    square : bool
        Whether panels are squares with one scale for both axes.
    """

    caption: str
    panels: tuple[Panel, ...]
    square: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words and numbers.

    Attributes
    ----------
    caption : str
        What the table shows, in words.
    header : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        Cells of each row.
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
        The part of a risk or error, and the variable.
    measured, stderr : float
        Least-squares slope and its standard error.
    theory : float
        Slope of the formula of the document on the same points.
    own : float or None
        Slope of the exact expectation of the estimator, where it is known. A bound of the right order may have another constant at each
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
    """A claim that was checked, and whether it holds.

    Attributes
    ----------
    claim : str
        The claim in words.
    measured, limit : str
        Numbers as shown.
    holds : bool
        Whether the claim holds; for a finding, with allowance for its statistical error.
    kind : {"finding", "identity"}
        An identity holds for every data set and seed, exactly or up to rounding: if it fails, dpcore has a bug. A finding is measured: it
        can fail by chance.
    """

    claim: str
    measured: str
    limit: str
    holds: bool
    kind: Kind = "finding"

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # NumPy's booleans are none of JSON


@dataclass(frozen=True, slots=True)
class Section:
    """One figure, table or theorem of a document.

    Attributes
    ----------
    title : str
        Document and number, then the claim: "Private inference (chapter 9), Theorem 9.2.2: …".
    statement : str
        The statement of the document.
    setup : str
        What was measured, and how.
    figures : tuple of Figure
        At least one figure.
    slopes : tuple of Slope
        Measured exponents beside those of the theory.
    checks : tuple of Check
        Identities and findings.
    remark : str
        How to read differences from the theory.
    tables : tuple of Table
        Tables of words and numbers.
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
        """Return the section for the JSON file.

        Returns
        -------
        dict
            The attributes, with lists for tuples.
        """
        plain: dict[str, Any] = _lists(asdict(self))
        return plain


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def floats(values: Iterable[Any]) -> tuple[float, ...]:
    """Return the numbers of an array as a `Series` holds them."""
    return tuple(float(value) for value in values)
