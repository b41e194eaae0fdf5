"""`rate`: the share of rows that fulfil a condition among the rows that a query is about.

The rows are counted in two cells, those that match and those that do not. A row is in one of them, so under addition and removal of a unit
both get noise of scale m/ε. A count of the matching rows and a count of all would share ε: twice that scale each. Under replacement the
scales are equal, 2m/ε. In both cases the cells have the smaller error: that of A/(A + B) is ((1 − p)·X − p·Y)/n to first order, with
(1 − p)² + p² ≤ 1 times the variance of one noise over n², that of A/N is (X − p·Y)/n, with 1 + p² times it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpcore._dataclasses import dataclass
from dpcore.query.encoders import NotNull
from dpcore.query.estimators import AT_LEAST, OneDraw, cells_in, given
from dpcore.query.fields import SKIP, Bound, Listed
from dpcore.query.kinds.base import NumberKind
from dpcore.query.kinds.count import BETWEEN, check_range, condition_in_words, condition_of, matching
from dpcore.query.methods import Method
from dpcore.query.noise import half_width_of, integer_noise, norm, standard_deviation
from dpcore.query.prose import declared_parts, sentence_of
from dpcore.query.query_sections import GroupedQuery
from dpcore.query.quotients import FEWER, combined_width, quotient_interval
from dpcore.query.statistics import CellsOf, ReadRows
from dpcore.tables.fields import Name

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.encoders import Encoder
    from dpcore.query.estimators import Estimator, IntegerNoise
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.rehearsal_columns import Seen
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]

MATCHING, OTHER = 0, 1
"""The cells."""


class RateQuery(GroupedQuery):
    """`kind = "rate"`: the share of rows whose column holds one of `categories` or a number in [lower, upper]."""

    kind: Literal["rate"]
    column: Annotated[Name, Field(description="Column of the condition.")]
    categories: Annotated[Listed | None, Field(description="Count the rows that hold one of these.")] = None
    lower: Annotated[Bound | None, Field(description=BETWEEN)] = None
    upper: Annotated[Bound | None, Field(description=BETWEEN)] = None
    missing: Annotated[
        Literal["skip"] | None, Field(description="Leaves rows without a value out. Default: they do not fulfil the condition.")
    ] = None

    @model_validator(mode="after")
    def _condition_is_whole(self) -> Self:
        bounds = self.lower is not None or self.upper is not None
        if (self.categories is not None) == bounds:
            found = "both were given" if bounds else "neither was given"
            raise ValueError(f"rate needs either categories = [...] or lower and upper, which say what rows it counts among all, {found}")
        check_range(self.lower, self.upper)
        return self


class Rate(NumberKind):
    """A quotient of two noisy counts, of which one is part of the other; with one noise where the number of rows is public."""

    names, fields = ("rate",), (RateQuery,)
    methods = (
        Method(
            "rate",
            "Compute the share of rows whose column holds one of some categories or a number in an interval.",
            "The noisy share, for each group if there are groups; `document` has both noisy counts, `matching` and `count`.",
            ("delta", "categories", "lower", "upper", "missing"),
        ),
    )

    def columns(self, position: int, query: RateQuery) -> Columns:
        """The condition; and where there is a value if other rows are skipped."""
        condition: tuple[str, Encoder] = (query.column, condition_of(position, query))
        return (condition, (query.column, NotNull())) if query.missing == SKIP else (condition,)

    def calibrate(self, query: RateQuery, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        """With the sensitivity of a histogram with two cells, or of one count."""
        if bound.n_is_public and not groups:
            return PublicRateEstimator(query, columns, integer_noise(query.epsilon, query.delta, bound.count, relation))
        return RateEstimator(query, columns, integer_noise(query.epsilon, query.delta, bound.cells, relation))

    def unclamped(self, query: RateQuery, seen: Seen) -> RateQuery:  # noqa: ARG002
        """Its bounds are the question."""
        return query

    def question(self, query: Entry) -> str:
        known = " with a value" if query.get("missing") == SKIP else ""
        return f"The share of rows that have {query['column']} {condition_in_words(query)}, among all{known}"

    def declared(self, query: Entry) -> str:
        return sentence_of(declared_parts(query, clamps=False))

    def limits(self, query: Entry) -> tuple[float, float]:  # noqa: ARG002
        return 0.0, 1.0


@dataclass(frozen=True, slots=True)
class RateEstimator(OneDraw):
    """Matching rows over all rows, made of noisy numbers of matching and of other rows."""

    section: RateQuery
    reads: tuple[tuple[str, Encoder], ...]
    mechanism: IntegerNoise

    def parameters(self) -> dict[str, Any]:
        return given(self.section, "categories", "lower", "upper", "missing") | AT_LEAST

    @property
    def statistic(self) -> Statistic:
        return MatchesOf(self.groups, 2, self.reads[0][1])

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers and their quotients, with intervals of the distances from ½."""
        match, other = np.asarray(self.mechanism.release(cells_in(total), rng=rng, threads=1)).T
        rows, beta = match + other, 1 - self.section.confidence
        value = _quotient(match, rows)
        low, high = (0.5 + end for end in quotient_interval((match - other) / 2, rows, 0.5, lambda far: self._off(far, beta)))
        deviation = standard_deviation(self.mechanism) * norm(1 - value, value) / np.maximum(rows, 1)
        return _said(value, deviation, low, high) | {"matching": match, "count": rows}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """It depends on how many rows there are, which is private."""
        return None

    def half_width(self, assumed: Assumed) -> float | None:
        r"""Of a group of n rows, a share p of which match: ((1 − p)·A − p·B)/(n + A + B), at the worst p, which is 0 or 1."""
        n, beta = assumed.known("n"), 1 - self.section.confidence
        fewer = float(combined_width(self.mechanism, self.mechanism, (1.0, 1.0), 2 * FEWER * beta))
        return 1.0 if n <= fewer else min(float(self._off(0.5, (1 - FEWER) * beta)) / (n - fewer), 1.0)

    def _off(self, far: Any, beta: float) -> Array:
        """How far (1 − p)·A − p·B is from 0 at most, but with probability β, for a p that is `far` from ½.

        It may not fall with `far`: noise of log-concave laws is the more peaked, the more equal its weights are (Proschan, 1965).
        """
        return combined_width(self.mechanism, self.mechanism, (0.5 + far, 0.5 - far), beta)


@dataclass(frozen=True, slots=True)
class PublicRateEstimator(RateEstimator):
    """A noisy number of matching rows over that of all rows, which is public: neighbours have equally many."""

    def parameters(self) -> dict[str, Any]:
        """The condition; of the interval nothing is given away."""
        return given(self.section, "categories", "lower", "upper", "missing")

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, Any]:
        match, rows = cells_in(total)[:, MATCHING], cells_in(total).sum(axis=1)
        if not rows[0]:
            return {"value": [None], "stderr": [None], "interval": [None], "note": ["the table has no rows, and so no rate"]}
        match = np.asarray(self.mechanism.release(match, rng=rng, threads=1))
        width = half_width_of(self.mechanism, 1 - self.section.confidence)
        said = _said(*(_quotient(each, rows) for each in (match, match, match - width, match + width)))
        return {**said, "stderr": standard_deviation(self.mechanism) / rows, "matching": match, "count": rows}

    def expected_error(self, rows: int | None) -> float | None:
        return standard_deviation(self.mechanism) / rows if rows else None

    def half_width(self, assumed: Assumed) -> float | None:
        return min(half_width_of(self.mechanism, 1 - self.section.confidence) / assumed.known("n"), 1.0)


@dataclass(frozen=True, slots=True)
class MatchesOf(CellsOf):
    """Rows of each group that match, and others, of those whose column has a value if only these count."""

    condition: Encoder

    def add(self, total: Array, selected: ReadRows) -> None:
        rows = selected.held()
        cells = np.where(matching(self.condition, rows.columns[0]), MATCHING, OTHER)
        super(MatchesOf, self).add(total, ReadRows(rows.n, [cells], rows.codes))  # noqa: UP008  # a class with slots is another one


def _quotient(part: Array, whole: Array) -> Array:
    """A share, clamped to [0, 1], which costs nothing."""
    return np.clip(part / np.maximum(whole, 1), 0.0, 1.0)


def _said(value: Array, deviation: Array, low: Array, high: Array) -> dict[str, Any]:
    return {"value": value, "stderr": deviation, "interval": np.stack([low, high], axis=-1)}
