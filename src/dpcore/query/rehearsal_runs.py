"""What the runs of one query found, number by number, and what follows: bias, noise, total error and coverage."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from dpcore.query.view import View

    Floats = npt.NDArray[np.float64]
    Name = tuple[tuple[str, ...], str]

CLOSE = 1e-7
"""Of itself, by which the true answer of an engine with some last noise may be off."""


class Runs:
    """The answers to one query.

    Parameters
    ----------
    is_fixed : bool
        Whether each run answers for the same groups.

    Attributes
    ----------
    truth : View or None
        The answer without clamping, bounding and noise.
    why : str or None
        Why there is none.
    """

    def __init__(self, *, is_fixed: bool) -> None:
        self.truth: View | None = None
        self.why: str | None = None
        self._is_fixed = is_fixed
        self._names: list[Name] | None = None
        self._runs: list[tuple[list[Name], Floats, Floats]] = []
        self._quiet: dict[Name, list[float]] = {}
        self._quiet_runs = 0
        self._chosen: list[dict[tuple[str, ...], tuple[Any, ...]]] = []
        self._best: dict[tuple[str, ...], tuple[Any, ...]] | None = None
        self._is_labelled = False

    @property
    def has_quiet(self) -> bool:
        """Whether an answer without noise is known."""
        return self._quiet_runs > 0

    def add(self, view: View) -> None:
        """Add the answer of a run."""
        self._is_labelled = view.kind.has_labels
        if self._is_labelled:
            self._chosen.append(labels_of(view))
            return
        values, intervals = view.numbers
        self._runs.append((self._named(view), values, intervals))

    def note_quiet(self, view: View) -> None:
        """Add the answer without noise of a run."""
        self._quiet_runs += 1
        if view.kind.has_labels:
            return
        for name, value in zip(self._named(view), view.numbers[0].tolist(), strict=True):
            self._quiet.setdefault(name, []).append(value)

    def _named(self, view: View) -> list[Name]:
        """The names of the numbers of a view; with declared groups each has the same."""
        if not self._is_fixed:
            return names_of(view)
        if self._names is None:
            self._names = names_of(view)
        return self._names

    def said(self) -> dict[str, Any]:
        """The part of the report about the query."""
        labels = self._said_of_labels() if self._is_labelled else None
        numbers = [] if self._is_labelled else self._said_of_numbers()
        squares = [number["rmse"] ** 2 for number in numbers if number["rmse"] is not None]
        return {
            "rmse": math.sqrt(math.fsum(squares) / len(squares)) if squares else None,
            "why": self.why,
            "numbers": numbers,
            "labels": labels,
        }

    def _said_of_numbers(self) -> list[dict[str, Any]]:
        truth = {} if self.truth is None else dict(zip(names_of(self.truth), self.truth.numbers[0].tolist(), strict=True))
        order = list(dict.fromkeys([*truth, *(name for names, _, _ in self._runs[:1] for name in names)]))
        order = list(dict.fromkeys([*order, *(name for names, _, _ in ([] if self._is_fixed else self._runs) for name in names)]))
        places = {name: place for place, name in enumerate(order)}
        values = np.full((len(self._runs), len(order)), np.nan)
        low, high = values.copy(), values.copy()
        at: Any = None
        for run, (names, found, intervals) in enumerate(self._runs):
            if at is None or not self._is_fixed:
                at = [places[name] for name in names]
            values[run, at], low[run, at], high[run, at] = found, intervals[:, 0], intervals[:, 1]
        return [
            described(name, truth.get(name), self._quiet.get(name), values[:, place], low[:, place], high[:, place])
            for name, place in places.items()
        ]

    def _said_of_labels(self) -> list[dict[str, Any]]:
        """How often the choices of a run are the true ones."""
        truth = {} if self.truth is None else labels_of(self.truth)
        found = []
        for groups in dict.fromkeys([*truth, *(each for run in self._chosen for each in run)]):
            chosen = [run[groups] for run in self._chosen if groups in run]
            best = truth.get(groups)
            often = Counter(label for each in chosen for label in each).most_common(1)
            found.append(
                {
                    "groups": list(groups),
                    "best": None if best is None else list(best),
                    "chosen_most": often[0][0] if often else None,
                    "same": _share(set(each) == set(best) for each in chosen) if best is not None else None,
                    "right": _share_of_labels(chosen, best),
                }
            )
        return found


def described(name: Name, truth: float | None, quiet: list[float] | None, values: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    """What is said of one number.

    Parameters
    ----------
    name : tuple
        Its group, and what it is of the answer.
    truth : float or None
        Its true value.
    quiet : list of float or None
        Its value without noise, in each run that has one.
    values, low, high : ndarray
        The value and the interval of each run; NaN where there is none.
    """
    answered = np.isfinite(values)
    known = values[answered]
    truth = None if truth is None or not math.isfinite(truth) else truth
    expected = None if not quiet or not np.isfinite(quiet).all() else float(np.mean(quiet))
    covering = None
    with_interval = answered & np.isfinite(low) & np.isfinite(high)
    if truth is not None and with_interval.any():
        slack = CLOSE * abs(truth)
        covering = float(np.mean((low[with_interval] <= truth + slack) & (truth - slack <= high[with_interval])))
    return {
        "groups": list(name[0]),
        "part": name[1],
        "truth": truth,
        "without_noise": expected,
        "bias": None if truth is None or expected is None else expected - truth,
        "noise": float(known.std(ddof=1)) if len(known) > 1 else None,
        "rmse": float(np.sqrt(np.mean((known - truth) ** 2))) if truth is not None and len(known) else None,
        "coverage": covering,
        "answered": float(answered.mean()),
    }


def names_of(view: View) -> list[Name]:
    """The name of each number of a view."""
    return [(row.groups, row.part) for row in view]


def labels_of(view: View) -> dict[tuple[str, ...], tuple[Any, ...]]:
    """The labels of each group of a view."""
    found: dict[tuple[str, ...], tuple[Any, ...]] = {}
    for row in view:
        found[row.groups] = (*found.get(row.groups, ()), row.label)
    return found


def _share(hits: Any) -> float | None:
    found = list(hits)
    return sum(found) / len(found) if found else None


def _share_of_labels(chosen: list[tuple[Any, ...]], best: Mapping[Any, Any] | tuple[Any, ...] | None) -> float | None:
    """How many of the true labels a run has, as a share, on average."""
    if not best or not chosen:
        return None
    return float(np.mean([len(set(each) & set(best)) / len(set(best)) for each in chosen]))
