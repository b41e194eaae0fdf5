r"""Which ε an answer needs, before anything is read or spent: how far it may be off as a function of ε, and the least ε for a target.

How far a number may be off at a confidence follows from public parameters and from what is assumed: `Estimator.half_width` of each kind. It
never grows with ε, because every kind has it as an increasing function of the scales of its noise, and every scale is a sensitivity over a
share of ε, or calibrated to ε and δ (docs/how-to.md says what this means for each kind). So the least ε of a grid is found by halving.
Several numbers at once have the union bound: each of m is within its half-width at the confidence 1 − β/m, so that all are at 1 − β.

The grid are the numbers with three digits, 1.00, 1.01, …, 9.99, times powers of ten: steps of one per cent at most.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from dpcore._dataclasses import dataclass
from dpcore._error_curves import SIZE, ErrorCurve, grid, least
from dpcore._validation import check_integer, check_real
from dpcore.errors import JobError, ParameterError, ParameterTypeError
from dpcore.pages.numbers import plain_number
from dpcore.query.assumed import MEANINGS, Assumed
from dpcore.query.plan import answers_of
from dpcore.query.reads import PrivateGrouping
from dpcore.query.units_of_answers import error_in_own_unit

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from dpcore._error_curves import Aim
    from dpcore.query.estimators import Estimator
    from dpcore.query.planning_page import PlanPages
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs

    Cells = int | Literal["all"]

__all__ = [
    "ALL",
    "MEANINGS",
    "Asked",
    "Assumed",
    "Found",
    "Planned",
    "Planning",
    "Target",
    "grid",
    "pages_of",
    "plan_report",
    "planned",
    "plannings_of",
]

MOST_ROWS = 10**15
ALL: Literal["all"] = "all"


@dataclass(frozen=True, slots=True)
class Target:
    """How far a number may be off.

    Attributes
    ----------
    half_width : float
        In the unit of the answer, or in rows for kinds that err in rows.
    share : float or None
        If it was given as a share of an assumed answer, that share.
    confidence : float
        With which probability.
    cells : int or "all"
        For how many numbers at once.
    """

    half_width: float
    share: float | None = None
    confidence: float = 0.95
    cells: Cells = 1

    @classmethod
    def of(cls, half_width: Any, relative: Any, confidence: Any, cells: Any) -> Target:
        """What a caller gives: a half-width, or a share of an assumed answer."""
        if (half_width is None) == (relative is None):
            given = "both were given" if relative is not None else "neither was given"
            raise ParameterError(f"half_width=20, or relative=(0.05, 400), a share of an answer that is assumed, is required; {given}")
        confidence = check_real("confidence", confidence, low=0.0, high=1.0, include_low=False, include_high=False)
        if cells != ALL:
            if isinstance(cells, str):
                raise ParameterError(f"cells must be 1 (each number by itself), how many hold at once, or {ALL!r}, got {cells!r}")
            cells = check_integer("cells", cells, low=1, high=2**40)
        if half_width is not None:
            return cls(_size("half_width", half_width), None, confidence, cells)
        if not isinstance(relative, tuple | list) or len(relative) != 2:
            raise ParameterTypeError(f"relative must be a share and an assumed answer, such as (0.05, 400), got {relative!r}")
        share = _size("relative[0]", relative[0])
        if share > 1:
            percent = f"write {share / 100:g} for {share:g} %" if share <= 100 else "write 0.05 for 5 %"
            raise ParameterError(f"relative[0], the share of the answer, must be in (0.0, 1.0], got {share!r}: {percent}")
        answer = check_real("relative[1]", relative[1], low=-math.inf, high=math.inf, include_low=False, include_high=False)
        if answer == 0:
            raise ParameterError("relative[1], the assumed answer, must not be 0: no ε gives a share of 0")
        return cls(_size("relative[0]·relative[1]", share * abs(answer)), share, confidence, cells)


def _size(name: str, value: object) -> float:
    """Return a half-width or a share that is positive and finite."""
    return check_real(name, value, low=0.0, high=math.inf, include_low=False, include_high=False)


class Planning:
    """One query of a job, at any ε.

    Parameters
    ----------
    job : ReleaseJob
        The job.
    place : int
        The query's place.
    answer_of : callable
        The calibrated answer to the query at a place of a job.
    assumed : Assumed
        What is assumed of the data.
    """

    def __init__(self, job: ReleaseJob, place: int, answer_of: Callable[[int, ReleaseJob], Estimator], assumed: Assumed) -> None:
        self.job, self.place, self._answer_of, self._assumed = job, place, answer_of, assumed
        self.query = job.query[place]

    def estimator(self, epsilon: float, confidence: float) -> Estimator:
        """The answer for this ε."""
        queries = list(self.job.query)
        keys = {"epsilon": epsilon, "confidence": confidence}
        queries[self.place] = self.query.model_copy(
            update={key: value for key, value in keys.items() if key in type(self.query).model_fields}
        )
        return self._answer_of(self.place, self.job.model_copy(update={"query": queries}))

    def cells(self, target: Target) -> int:
        """For how many numbers at once."""
        if target.cells != ALL:
            return target.cells
        estimator = self.estimator(grid(SIZE - 1), target.confidence)
        if isinstance(estimator.grouping, PrivateGrouping):
            raise JobError(
                f"query {self.query.name!r}: how many groups there are is not known before they are named; give a number of cells"
            )
        return estimator.numbers

    def half_width(self, epsilon: float, target: Target, cells: int, assumed: Assumed | None = None) -> float:
        """How far a number may be off, in the unit of the answer or in rows; raises `ParameterError` or `JobError` if that is not known."""
        # of the float64 numbers in (0, 1) whose complement is one as well; upwards, which makes it wider
        confidence = max(float(1 - Fraction(1 - target.confidence) / cells), 2.0**-53)
        estimator = self.estimator(epsilon, min(confidence, math.nextafter(1.0, 0.0)))
        try:
            found = estimator.half_width(self._assumed if assumed is None else assumed)
        except ParameterError as error:
            raise JobError(f"query {self.query.name!r} ({self.query.kind}): {error}") from None
        if found is None:
            about = f"query {self.query.name!r} ({self.query.kind})"
            raise JobError(f"{about}: how far its answer may be off is not known without data, so no ε can be named")
        own = found if estimator.errs_in_rows else error_in_own_unit(estimator.section, found)
        return math.nan if own is None else own

    def least_epsilon(self, target: Target, cells: int) -> float:
        """The least ε of the grid that meets a target; raises `JobError` if none does."""
        best = self.half_width(grid(SIZE - 1), target, cells)
        if best > target.half_width:
            raise JobError(
                f"query {self.query.name!r}: no ε up to {grid(SIZE - 1):g} meets ± {plain_number(target.half_width, 4)}: with it, it is "
                f"± {plain_number(best, 4)}. Allow a wider one{', or assume more rows' if 'n' in self._assumed.numbers else ''}"
            )
        return grid(least(lambda place: self._meets(grid(place), target, cells), -1, SIZE - 1))

    def _meets(self, epsilon: float, target: Target, cells: int) -> bool:
        """Whether an ε meets a target; one that is too small for any noise does not."""
        try:
            return self.half_width(epsilon, target, cells) <= target.half_width
        except JobError:  # the largest ε has shown that the query is none
            return False

    def smallest(self, target: Target, cells: int) -> tuple[str, float] | None:
        """With the ε of the job: the smallest answer that may be off by the target's share, or the fewest rows that meet it."""
        if self.query.epsilon <= 0:
            return None
        if "n" in self._assumed.numbers and self._depends_on_rows(target, cells):
            if self._of_rows(MOST_ROWS, target, cells) > target.half_width:
                return None
            return "n", least(lambda rows: self._of_rows(rows, target, cells) <= target.half_width, 0, MOST_ROWS)
        return None if target.share is None else ("answer", self.half_width(self.query.epsilon, target, cells) / target.share)

    def error_curve(self, aim: Aim, *, cells: Cells = 1) -> ErrorCurve:
        """The width of the interval as a function of n and of ε, for `dpcore.planning`; an `n` that is assumed is not used.

        For kinds that err in rows, the width is a number of rows. With `cells`, so many numbers are within their intervals at once.
        """
        aim.one_of(f"query {self.query.name!r}", "width")
        target = Target(math.inf, None, aim.confidence, cells)
        several = self.cells(target)

        def error(n: int, epsilon: float) -> float:
            try:
                found = self.half_width(epsilon, target, several, Assumed({**self._assumed.numbers, "n": float(n)}))
            except JobError:
                if epsilon == grid(SIZE - 1):  # it is not the ε that is too small for any noise
                    raise
                return math.inf
            return 2 * found

        error(1, grid(SIZE - 1))  # raises what no ε mends
        fixed = error(1, 1.0) == error(MOST_ROWS, 1.0)
        return ErrorCurve(
            error,
            what=f"query {self.query.name!r}, {self.query.kind}",
            formula="twice the half-width of the noise at the confidence" + (", by the union bound" if several > 1 else ""),
            source="docs/how-to.md, how much ε an answer needs",
            epsilon=self.query.epsilon or None,
            sizes=(1, MOST_ROWS),
            epsilons=(grid(0), grid(SIZE - 1)),
            falls_in_epsilon=True,
            falls_in_n=fixed,
            limit_in_n="the noise, which does not depend on the number of rows" if fixed else "the noise of the largest number of rows",
            limit_in_epsilon="the noise of the largest ε",
        )

    def _of_rows(self, rows: int, target: Target, cells: int) -> float:
        return self.half_width(self.query.epsilon, target, cells, Assumed({**self._assumed.numbers, "n": float(rows)}))

    def _depends_on_rows(self, target: Target, cells: int) -> bool:
        return self._of_rows(MOST_ROWS, target, cells) < self._of_rows(1, target, cells)

    def weight_for(self, epsilon: float) -> float | None:
        """The weight that gives the query this ε, beside the weights of the others; None if it has none, or no weight does."""
        places = self.job.weights
        if self.place not in places or self.job.privacy.accounting != "basic":
            return None
        others = sum(weight for place, weight in places.items() if place != self.place)
        spent = sum(self.job.spent_on(query).epsilon for place, query in enumerate(self.job.query) if place not in places)
        left = self.job.privacy.max_epsilon - spent
        return None if left <= epsilon or not others else others * epsilon / (left - epsilon) * (1 + 2.0**-40)


Found = TypeVar("Found")
Asked: TypeAlias = "Callable[[Planning], Found]"
"""What is asked about the planning of a query."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What a query needs, from public parameters and from what was assumed.

    Attributes
    ----------
    name, kind : str
        Of the query.
    target : Target
        How exact the answer must be.
    epsilon : float
        The least ε of the grid that meets it.
    half_width : float
        How far a number may be off with that ε, at the confidence, for all cells.
    in_rows : bool
        Whether that is a number of rows, by which a rank or a frequency may be off.
    cells : int
        For how many numbers at once.
    weight : float or None
        The weight that gives this ε, for a query of a job with weights.
    given : float or None
        The ε that the job gives it.
    given_half_width : float or None
        How far it may be off with that.
    smallest : tuple of (str, float) or None
        With that: ("answer", the smallest answer whose share is met), or ("n", the fewest rows).
    assumed : mapping
        What was assumed of the data; with a share, of the answer.
    is_bound : bool
        Whether the half-width is a bound, so that a slightly smaller ε may do, as where a number of rows is private.
    """

    name: str
    kind: str
    target: Target
    epsilon: float
    half_width: float
    in_rows: bool
    cells: int
    weight: float | None
    given: float | None
    given_half_width: float | None
    smallest: tuple[str, float] | None
    assumed: Mapping[str, float]
    is_bound: bool = False

    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "name": self.name,
            "kind": self.kind,
            "target": {
                "half_width": self.target.half_width,
                "share": self.target.share,
                "confidence": self.target.confidence,
                "cells": self.cells,
            },
            "epsilon": self.epsilon,
            "half_width": self.half_width,
            "unit": "rows" if self.in_rows else "of the answer",
            "weight": self.weight,
            "given": None if self.given is None else {"epsilon": self.given, "half_width": self.given_half_width},
            "smallest": None if self.smallest is None else dict([self.smallest]),
            "assumed": dict(self.assumed),
            "is_bound": self.is_bound,
        }

    def __repr__(self) -> str:
        width = f"{'at most ' if self.is_bound else ''}± {plain_number(self.half_width, 4)}{' rows' if self.in_rows else ''}"
        of_all = f" for all of {self.cells:,} numbers" if self.cells > 1 else ""
        return f"Planned(epsilon={self.epsilon!r}, {width} at {self.target.confidence:g}{of_all})"


def planned(planning: Planning, target: Target, assumed: Assumed) -> Planned:
    """What a query of a job needs for a target."""
    cells = planning.cells(target)
    epsilon = planning.least_epsilon(target, cells)
    given, estimator = planning.query.epsilon or None, planning.estimator(epsilon, target.confidence)
    noted = dict(assumed.numbers) | ({} if target.share is None else {"answer": target.half_width / target.share})
    return Planned(
        name=planning.query.name,
        kind=planning.query.kind,
        target=target,
        epsilon=epsilon,
        half_width=planning.half_width(epsilon, target, cells),
        in_rows=estimator.errs_in_rows,
        cells=cells,
        weight=planning.weight_for(epsilon),
        given=given,
        given_half_width=None if given is None else planning.half_width(given, target, cells),
        smallest=planning.smallest(target, cells),
        assumed=noted,
        is_bound="coverage" in estimator.parameters(),
    )


def plannings_of(job: ReleaseJob, inputs: Inputs | None, assumed: Assumed, tables: Mapping[str, Inputs] | None = None) -> list[Planning]:
    """The queries of a job, for any ε: only schemas are read."""
    job, answer_of = answers_of(job, inputs, tables)
    return [Planning(job, place, answer_of, assumed) for place in range(len(job.query))]


EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""For which the errors of a job are shown."""


def plan_report(job: ReleaseJob, plannings: Sequence[Planning], found: Sequence[Planned], assumed: Assumed) -> dict[str, Any]:
    """What `dpcore plan` says, as JSON has it: targets, and for each query how far it may be off at 95 %, by ε."""
    noted = dict(assumed.numbers)
    for each in found:
        noted |= each.assumed
    at_once = {each.name: max(other.cells for other in found if other.name == each.name) for each in found}
    added = len(found) > 1 and len({each.name for each in found}) == len(found)
    return {
        "targets": [each.document() for each in found],
        "together": math.fsum(each.epsilon for each in found) if added else None,
        "max_epsilon": job.privacy.max_epsilon,
        "unit": job.privacy.protected,
        "relation": job.privacy.relation,
        "epsilons": list(EPSILONS),
        "queries": [_errors_of(planning, at_once.get(planning.query.name, 1)) for planning in plannings],
        "assumed": noted,
    }


def pages_of(folder: Path, job: Path) -> PlanPages:
    """The files of `plan --report`, for a job file."""
    from dpcore.query.planning_page import PlanPages

    return PlanPages.of(folder, job)


def _errors_of(planning: Planning, cells: int) -> dict[str, Any]:
    """How far a query may be off, by ε, or why that is not known; with a target for several numbers at once, all of them."""
    target = Target(math.inf)
    head: dict[str, Any] = {"name": planning.query.name, "kind": planning.query.kind, "column": planning.query.column}
    head["cells"] = cells
    try:
        widths = [planning.half_width(epsilon, target, cells) for epsilon in EPSILONS]
        in_rows = planning.estimator(EPSILONS[-1], target.confidence).errs_in_rows
    except JobError as error:
        return {**head, "unit": None, "half_widths": [None] * len(EPSILONS), "why": str(error)}
    return {**head, "unit": "rows" if in_rows else "of the answer", "half_widths": widths, "why": None}
