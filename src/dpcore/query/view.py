"""One view of an answer: the rows that terminals, pages, notebooks and tables show, made from its entry in the document alone.

A row is one number that was released, or one label, with its interval, its relative error and the digits that its error calls for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.pages.numbers import counted, ends_of, percentage_of, plain_name, plain_number, readable, with_digits, written
from dpcore.query.kinds import KINDS
from dpcore.query.prose import GroupNames, as_list, coverage_in_words, group_columns, has_bins
from dpcore.query.questions import in_text
from dpcore.query.units_of_answers import with_unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]


VALUE, STDERR, LOWER, UPPER = "value", "stderr", "lower", "upper"
TOO_NOISY = 0.5
"""A number is too noisy to use if half of its interval is a larger share of it than this."""
RELATIVE_ERROR = "The relative error is half of the interval, as a share of the number."
RULE = (
    f"{RELATIVE_ERROR} A number is marked as too noisy to use where it is above "
    f"{percentage_of(TOO_NOISY)}, as the interval is then wider than the number is large, or where the interval holds all that is possible."
)
MARK = "too noisy"
LARGEST_SHARE = 10.0
"""A larger relative error is not written out."""


@dataclass(frozen=True, slots=True)
class Row:
    """A number that was released, or a label.

    Attributes
    ----------
    name : str
        Its name among the others.
    groups : tuple of str
        Its group: a name for each column of the groups.
    part : str
        Which number of its group's answer it is: a cell, a level, or a place. Empty if there is only one.
    label : str or None
        The label that was chosen, if labels are.
    value, stderr, lower, upper : object
        As the document has them; None if there are none.
    relative : float
        Half of the interval as a share of the value. NaN where there is none, as of dates; infinite for 0.
    is_open : bool
        Whether the interval holds all that the answer could be.
    ranks : float or None
        How far a quantile may be off, in rows.
    note : str or None
        Why there is no value.
    """

    name: str
    groups: tuple[str, ...]
    part: str
    label: str | None
    value: Any
    stderr: Any
    lower: Any
    upper: Any
    relative: float
    is_open: bool
    ranks: float | None
    note: str | None

    @property
    def is_exact(self) -> bool:
        """Whether it has no noise."""
        return _is_number(self.stderr) and not self.stderr

    @property
    def is_noisy(self) -> bool:
        """Whether it is too noisy to use."""
        return self.is_open or self.relative > TOO_NOISY

    @property
    def shown(self) -> tuple[str, str, str]:
        """Value and interval, with the digits that the standard error calls for."""
        numbers = self.value, self.lower, self.upper
        if not _is_number(self.stderr) or not self.stderr:
            return plain_number(numbers[0]), plain_number(numbers[1]), plain_number(numbers[2])
        texts = iter(with_digits([each for each in numbers if _is_number(each)] or [0.0], self.stderr))
        value, lower, upper = (next(texts) if _is_number(each) else plain_number(each) for each in numbers)
        return value, lower, upper

    @property
    def interval(self) -> str | None:
        """The interval, if there is one."""
        return None if self.lower is None else ends_of(*self.shown[1:])

    @property
    def error(self) -> str | None:
        """The standard error with two digits, if it is known."""
        if not _is_number(self.stderr):
            return None if self.stderr is None else plain_number(self.stderr)
        return readable([self.stderr], self.stderr, percent=False)[0] if self.stderr else "0"

    @property
    def share(self) -> str | None:
        """The relative error with two digits, if it says something."""
        if math.isnan(self.relative):
            return None
        if self.relative > LARGEST_SHARE:
            return f"over {percentage_of(LARGEST_SHARE)}"
        rounded = float(f"{self.relative:.2g}")
        return readable([rounded], rounded, percent=True)[0] if rounded else "0 %"

    @property
    def share_and_mark(self) -> str | None:
        """The relative error, and whether the number is too noisy."""
        return f"{self.share}, {MARK}" if self.is_noisy else self.share

    def line(self, query: Mapping[str, Any]) -> str:
        """Return the answer with its error, on one line."""
        if self.value is None:
            return plain_name(self.label) if self.label is not None else f"– ({self.note})" if self.note else "–"
        value, lower, upper = self.shown
        if self.ranks is not None:
            return f"{with_unit(value, query)} (rank ± {counted(math.ceil(self.ranks), 'row')})"
        if self.is_exact:
            return f"{with_unit(value, query)} (exact)"
        if self.lower is None:
            return with_unit(value, query)
        if not _is_number(self.lower):  # a date or a time
            return f"{value} ({lower} to {upper})"
        below, above = self.value - self.lower, self.upper - self.value
        if not math.isclose(below, above, rel_tol=1e-6, abs_tol=1e-9 * abs(self.value)):
            return with_unit(f"{value} ({ends_of(lower, upper)})", query)
        value, half = with_digits([self.value, above], self.stderr) if self.stderr else (value, plain_number(above))
        return with_unit(f"{value} ± {half}", query)


class View(Sequence[Row]):
    """The rows of one answer: for each group, or for the whole table, one for each part. They can be many, so each is made when asked for.

    Parameters
    ----------
    query : mapping
        An entry of the document's queries.
    typed : mapping, optional
        The same with dates in place of their text, for tables.

    Attributes
    ----------
    query : mapping
        That entry, with numbers or labels as its value.
    kind : Kind
        Its kind.
    is_grouped : bool
        Whether there are groups.
    groups : int
        How many; 1 of the whole table.
    parts : list of str
        What each number of one group's answer is.
    """

    def __init__(self, query: Mapping[str, Any], typed: Mapping[str, Any] | None = None) -> None:
        self.kind = KINDS[query["kind"]]
        self.query = self.kind.numbered(query if typed is None else typed)
        self.is_grouped = query.get("groups") is not None
        self._names = GroupNames(query) if self.is_grouped else None
        self.groups = 1 if self._names is None else len(self._names)
        self.parts = self.kind.heads(self.kind.numbered(query))

    def __len__(self) -> int:
        return self.groups * len(self.parts)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        group, part = divmod(range(len(self))[place], len(self.parts))
        return next(itertools.islice(self.rows(group, group + 1), part, None))

    def __iter__(self) -> Iterator[Row]:
        return self.rows()

    @property
    def is_single(self) -> bool:
        """Whether it is one answer that needs no name."""
        return len(self) == 1 and not self.is_grouped and not self.kind.keys(self.query)

    @property
    def is_timed(self) -> bool:
        """Whether the answers are dates or times, in text."""
        return in_text(self.query)

    @property
    def has_values(self) -> bool:
        """Whether numbers were released, and not only labels."""
        return not self.kind.has_labels or self.query.get("counts") is not None

    @property
    def group_heads(self) -> list[str]:
        """The columns of the groups."""
        return list(group_columns(self.query)) if self.is_grouped else []

    @property
    def label_head(self) -> str | None:
        """What the labels are of, if labels were chosen."""
        about = self.query.get("column") or self.query.get("group_by")
        return ", ".join(map(str, as_list(about, 1))) if self.kind.has_labels else None

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Row]:
        """The rows of some of the groups.

        Parameters
        ----------
        start, stop : int
            Places of the first group, and of the one after the last.
        """
        stop = self.groups if stop is None else min(stop, self.groups)
        found = self._numbers(start, stop)
        labels = self._flat("value", start, stop) if self.kind.has_labels else itertools.repeat(None)
        ranks, notes = self._flat("rank_error", start, stop), self._flat("note", start, stop)
        places = ((place, part) for place in range(start, stop) for part in self.parts)
        open_ones = _are_open(_floats(found[LOWER]), _floats(found[UPPER]), self._limits).tolist()
        every = zip(places, labels, *found.values(), _relative_errors(found).tolist(), open_ones, ranks, notes, strict=False)
        for (place, part), label, *numbers in every:
            names = () if self._names is None else self._names.parts(place)
            shown = None if label is None else plain_name(label)
            yield Row(self._named(names, part, shown), names, part, shown, *numbers)

    def name(self, place: int) -> str:
        """The name of a row among the others.

        Parameters
        ----------
        place : int
            Of the row.
        """
        group, part = divmod(place, len(self.parts))
        label = plain_name(self._flat("value", group, group + 1)[part]) if self.kind.has_labels else None
        return self._named(() if self._names is None else self._names.parts(group), self.parts[part], label)

    def _named(self, groups: tuple[str, ...], part: str, label: str | None) -> str:
        return ", ".join(filter(None, (*groups, part if label is None or not self.has_values else label)))

    @cached_property
    def numbers(self) -> tuple[Floats, Floats]:
        """All values, and intervals of shape (m, 2) as arrays of floats; NaN where there is no number."""
        found = self._numbers(0, self.groups)
        return _floats(found[VALUE]), np.stack([_floats(found[LOWER]), _floats(found[UPPER])], axis=1)

    @cached_property
    def relative_errors(self) -> Floats:
        """Half of each interval as a share of its number; NaN where there is no interval, no noise, or no zero, as of dates."""
        return _relative_errors(self._numbers(0, self.groups))

    @cached_property
    def noisy(self) -> npt.NDArray[np.bool_]:
        """Which numbers are too noisy to use."""
        ends = self.numbers[1]
        return _are_open(ends[:, 0], ends[:, 1], self._limits) | (self.relative_errors > TOO_NOISY)

    @property
    def _limits(self) -> tuple[float, float] | None:
        return None if self.is_timed else self.kind.limits(self.query)

    def columns(self, stop: int | None = None) -> dict[str, Any]:
        """The answer as columns of a table: keys of groups and parts, or labels, then numbers. Each is a list, or an array of numbers.

        Parameters
        ----------
        stop : int, optional
            How many groups. Default: all.
        """
        stop = self.groups if stop is None else min(stop, self.groups)
        columns: dict[str, Any] = self._arrays(stop) or self._numbers(0, stop) if self.has_values else {}
        keys = {str(self.query["column"]): self._flat("value", 0, stop)} if self.kind.has_labels else self.kind.keys(self.query)
        times = 1 if self.kind.has_labels else stop if self.is_grouped else 1
        columns = {_free(name, columns): list(column) * times for name, column in keys.items()} | columns
        groups = self._keys_of_groups(stop) if self.is_grouped else {}
        if len(self.parts) > 1:
            groups = {name: [key for key in column for _ in self.parts] for name, column in groups.items()}
        return {_free(name, columns): column for name, column in groups.items()} | columns

    def _keys_of_groups(self, stop: int) -> dict[str, list[Any]]:
        """A column for each column of the groups, and two for one of bins."""
        found: dict[str, list[Any]] = {}
        for name, every in group_columns(self.query).items():
            keys = list(every[:stop])
            if has_bins(every):
                found[f"{name}_left"] = [None if key is None else key[0] for key in keys]
                found[f"{name}_right"] = [None if key is None else key[1] for key in keys]
            else:
                found[name] = keys
        if self.query.get("level") is not None:
            names = {level["columns"]: level["name"] for level in self.query["levels"]}
            found = {_free("level", found): [names[count] for count in self.query["level"][:stop]], **found}
        return found

    def _arrays(self, stop: int) -> dict[str, Any]:
        """The numbers of the first groups as arrays; nothing if the answer does not have them so."""
        value, stderr, interval = (self.query.get(key) for key in (VALUE, STDERR, "interval"))
        if not (isinstance(value, np.ndarray) and isinstance(stderr, np.ndarray) and isinstance(interval, np.ndarray)):
            return {}
        ends = interval[:stop].reshape(-1, 2)
        errors = np.repeat(stderr[:stop], len(self.parts))
        return {VALUE: value[:stop].reshape(-1), STDERR: errors, LOWER: ends[:, 0], UPPER: ends[:, 1]}

    def _numbers(self, start: int, stop: int) -> dict[str, list[Any]]:
        """The numbers of some groups, as columns."""
        pairs = self._flat("interval", start, stop)
        values = self._flat("counts" if self.kind.has_labels else "value", start, stop)
        ends = ([None if pair is None else pair[end] for pair in pairs] for end in (0, 1))
        return {VALUE: values, STDERR: self._flat("stderr", start, stop), **dict(zip((LOWER, UPPER), ends, strict=True))}

    def _flat(self, key: str, start: int, stop: int) -> list[Any]:
        """One entry for each part of each group, whether the document has lists, or one for all."""
        found, count = self.query.get(key), len(self.parts)
        if isinstance(found, np.ndarray):
            found = found[start:stop].tolist() if self.is_grouped else found.tolist()
            start, stop = 0, stop - start
        of_groups: list[Any] = [found]
        if self.is_grouped:
            of_groups = list(found[start:stop]) if isinstance(found, list | tuple) else [found] * (stop - start)
        # Of one number a group, entries are numbers already, and intervals pairs.
        first = next((each for each in of_groups if each is not None), None)
        if key == "interval" and first is not None and len(first) == 2:
            first = first[0]
        if count == 1 and not isinstance(first, list | tuple | np.ndarray):
            return of_groups
        if key == "interval":
            return [pair for each in of_groups for pair in _pairs(each, count)]
        return [entry for each in of_groups for entry in as_list(each, count)]

    def typical(self) -> str | None:
        """The median of the half-widths of all intervals, in words; None without intervals of numbers."""
        _, intervals = self.numbers
        halves = np.diff(intervals)[:, 0] / 2
        known = halves[np.isfinite(halves)]
        if not known.size:
            return None
        return with_unit(f"± {plain_number(float(np.median(known)), 2)}", self.query)

    def marked(self) -> int:
        """How many rows are too noisy to use."""
        return int(self.noisy.sum())

    def summary(self) -> tuple[str, str | None]:
        """Return what was released, and how exact it is, in a few words each."""
        if self.is_single:
            (row,) = self
            value = with_unit(row.shown[0], self.query) if row.label is None else row.label
            if row.value is None:
                return (value if row.label is not None else "none"), None
            return value, None if row.interval is None or row.is_exact else with_unit(row.interval, self.query)
        if self.is_grouped or self.kind.counts_rows:
            noun = "label" if not self.has_values else "count" if self.kind.counts_rows or self.kind.has_labels else "value"
            words = counted(len(self), noun)
        else:
            names = [row.shown[0] if row.label is None else row.label for row in itertools.islice(self, 3)]
            words = ", ".join(names) + (", …" if len(self) > 3 else "") or "none"
        typical, marked = self.typical(), self.marked()
        exactness = (f"typically {typical}" if typical else "", f"{written(marked, ',')} {MARK}" if marked else "")
        return words, "; ".join(filter(None, exactness)) or None

    @property
    def confidence(self) -> str:
        """The confidence of the intervals, in words."""
        return coverage_in_words(self.query)


def _relative_errors(found: Mapping[str, list[Any]]) -> Floats:
    value, low, high = (_floats(found[key]) for key in (VALUE, LOWER, UPPER))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(_floats(found[STDERR]) == 0, np.nan, (high - low) / 2 / np.abs(value))


def _are_open(low: Floats, high: Floats, limits: tuple[float, float] | None) -> npt.NDArray[np.bool_]:
    """Which intervals hold all that is possible, and so do not show anything."""
    if limits is None:
        return np.zeros(len(low), np.bool_)
    return (low <= limits[0]) & (high >= limits[1])


def _pairs(interval: Any, count: int) -> list[Any]:
    """A pair for each part of one answer, whether the document has one pair, a list of them, or none."""
    if interval is None or not len(interval):
        return [None] * count
    return list(interval) if isinstance(interval[0], list | tuple | np.ndarray | None) else [interval] * count


def _floats(numbers: list[Any]) -> Floats:
    """Numbers as an array, NaN where there is none; of dates there is none."""
    try:
        return np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(len(numbers), np.nan)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)


def _free(name: str, columns: Mapping[str, Any]) -> str:
    """A name for a column of keys that no column of numbers has."""
    while name in columns:
        name = f"{name}_"
    return name
