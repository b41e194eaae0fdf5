"""`top_s`: the s most frequent of declared candidates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from dpcore import accounting, selection
from dpcore._dataclasses import dataclass
from dpcore._exact.intervals import fraction_up
from dpcore.accounting import _calibration
from dpcore.noise import default_grid
from dpcore.pages.numbers import counted, percentage_of
from dpcore.privacy import Privacy
from dpcore.query.encoders import Categorical
from dpcore.query.estimators import OneColumn, cells_in
from dpcore.query.fields import MAX_CELLS, UNKNOWN_NAMES, Confidence, DeltaShare, HowMany, Listed
from dpcore.query.kinds.base import StatisticKind
from dpcore.query.methods import KNOWN, Method
from dpcore.query.noise import Draw, Noise, laplace_deviation, share_of
from dpcore.query.prose import declared_parts, of_column, sentence_of, size
from dpcore.query.query_sections import LISTS_THEM, GroupedQuery
from dpcore.query.reads import listed
from dpcore.query.statistics import CellsOf
from dpcore.selection._plan import shortfall
from dpcore.selection._rows import noisy_rows, top_of_rows
from dpcore.tables.fields import CategoryCount, Name
from dpcore.tables.mistakes import Mistake, MistakesError
from dpcore.tables.types.categories import declared_by

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.privacy import Relation
    from dpcore.query.assumed import Assumed
    from dpcore.query.estimators import Estimator
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.sensitivity import Contribution
    from dpcore.query.statistics import Statistic
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]


class CandidatesQuery(GroupedQuery):
    """A choice among declared candidates."""

    column: Annotated[Name, Field(description="The column.")]
    delta: Annotated[DeltaShare, Field(description="Its δ, in [0, 1). Default: 0.")] = 0.0
    candidates: Annotated[Listed | None, Field(description=KNOWN)] = None
    candidates_file: Annotated[Name | None, Field(description=LISTS_THEM)] = None
    k: Annotated[CategoryCount | None, Field(description="The candidates are the codes 0 … k − 1.")] = None

    @model_validator(mode="after")
    def _candidates_are_declared_once(self) -> Self:
        declared = [key for key in ("candidates", "candidates_file", "k") if getattr(self, key) is not None]
        if len(declared) != 1:
            found = f"{' and '.join(declared)} were given" if declared else "none was given"
            raise ValueError(
                f'{self.kind} needs one of candidates = [...], candidates_file = "x.csv" or k = N (the codes 0 … N − 1), {found}. '
                + UNKNOWN_NAMES
            )
        if self.known_size > MAX_CELLS:
            raise ValueError(f"k must be at most {MAX_CELLS}, got {self.known_size}")
        return self

    @property
    def known_size(self) -> int:
        """Number of candidates; 0 if they are in a file."""
        return self.k or len(self.candidates or ())


class TopQuery(CandidatesQuery):
    """`kind = "top_s"`: the s most frequent of declared candidates."""

    kind: Literal["top_s"]
    s: Annotated[HowMany, Field(description="How many to choose.")]
    method: Annotated[
        Literal["gumbel", "peeling", "oneshot_laplace"],
        Field(description='How they are chosen; see `dpcore.selection.top_s`. Default: "gumbel".'),
    ] = "gumbel"
    values: Annotated[bool, Field(description="Whether to release their counts, too. Default: False.")] = False
    confidence: Annotated[
        Confidence, Field(description="Of intervals of counts and of how good the choice is, in (0, 1). Default: 0.95.")
    ] = 0.95

    @model_validator(mode="after")
    def _there_are_enough_candidates(self) -> Self:
        if self.known_size and self.s > self.known_size:
            raise ValueError(f"s must be at most the number of candidates, {self.known_size}, got {self.s}")
        return self


class Top(StatisticKind):
    """Labels, and their noisy counts if wanted."""

    names: ClassVar[tuple[str, ...]] = ("top_s",)
    fields: ClassVar[tuple[type[QuerySection], ...]] = (TopQuery,)
    methods: ClassVar[tuple[Method, ...]] = (
        Method(
            "top",
            "Choose the most frequent of declared candidates.",
            "The chosen candidates, the most frequent first; `behind` says by how many rows one of them may fall short.",
            ("delta", "candidates", "candidates_file", "k", "method", "values"),
            first=("s",),
        ),
    )
    cells_are = "candidates"
    has_labels = True

    def columns(self, position: int, query: TopQuery) -> Columns:
        categories = listed(position, query, declared_by(query.candidates, query.candidates_file, query.k))
        if query.s > categories.k:
            text = f"s must be at most the number of candidates, {categories.k}, got {query.s}"
            raise MistakesError(Mistake(("query", position), text, about=f" ({query.name!r})"))
        return ((query.column, Categorical(categories, skip=True)),)

    def calibrate(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Estimator:
        cells: Any = columns[0][1]
        return TopEstimator.calibrate(query, cells, bound, relation, groups)

    def question(self, query: Entry) -> str:
        chosen = query["s"] if query.get("groups") is not None else len(query["value"])
        return f"The {f'{chosen} ' if chosen > 1 else ''}most frequent of the declared values{of_column(query)}"

    def declared(self, query: Entry) -> str:
        parts = declared_parts(query)
        if query.get("candidates") is not None:
            parts.append(f"{size(query['candidates'])} candidates were declared")
        return " ".join(filter(None, (sentence_of(parts), self.sureness(query))))

    def behind(self, query: Entry) -> int | None:
        """By what the entry says: scale, method, and numbers of candidates and of chosen."""
        candidates, drawn = query.get("candidates"), query.get("noise")
        if candidates is None or not drawn:
            return None
        size = candidates if isinstance(candidates, int) else len(candidates)
        scale, s = drawn[0]["scale"], min(len(self.heads(query)), size)
        return math.floor(shortfall(query.get("method", "gumbel"), scale, size, s, query["confidence"]))

    def sureness(self, query: Entry) -> str | None:
        if self.behind(query) is None:
            return None
        groups = ", in each group for itself" if query.get("groups") is not None else ""
        return f"With a probability of {percentage_of(query['confidence'])} {self._bound(query)}{groups}."

    def _bound(self, query: Entry) -> str:
        place, behind = len(self.heads(query)), self.behind(query)
        best = f"the value that is truly number {place}" if place > 1 else "the most frequent one"
        far = f"more than {counted(behind, 'row')} " if behind else ""
        return f"no chosen value is {far}behind {best}"

    def caveats(self, query: Entry) -> list[str]:
        chance = "Of values with nearly the same frequency, noise decides which"
        if query.get("method") == "oneshot_laplace":
            return [f"A set, in no particular order. {chance} is in it."]
        return [f"In the order in which they were chosen. {chance} comes first, and which is in the list at all."]

    def heads(self, query: Entry) -> list[str]:
        places = query["s"] if query.get("groups") is not None else len(query["value"])
        return [f"place {place}" for place in range(1, places + 1)]

    def head(self, query: Entry) -> str:
        return "chosen as" if query.get("method") != "oneshot_laplace" else ""


@dataclass(frozen=True, slots=True)
class TopEstimator(OneColumn):
    """The s most frequent candidates, in order of selection.

    Attributes
    ----------
    section : TopQuery
        The query.
    cells : Declared
        The candidates.
    terms : Terms
        What one group's selection is calibrated for.
    trial : Selection
        One on no rows, with the scales.
    """

    section: TopQuery
    cells: Categorical
    terms: Terms
    trial: selection.Selection

    @classmethod
    def calibrate(cls, section: TopQuery, cells: Categorical, bound: Contribution, relation: Relation, groups: int = 0) -> TopEstimator:
        """Calibrate it by a trial on no rows."""
        terms = Terms.of_groups(section, bound) if groups > 1 else Terms.of_table(section, bound, relation)
        return cls(section, cells, terms, _top(np.zeros(cells.size, np.int64), section, terms, None))

    @property
    def fewest_cells(self) -> int:
        return self.cells.size

    @property
    def noise(self) -> tuple[Noise, ...]:
        values, moved = self.trial.value_scale, self.terms.sensitivity * self.terms.moved
        choice = Noise("gumbel" if self.section.method == "gumbel" else "laplace", moved, self.trial.scale)
        return (choice,) if values is None else (choice, Noise("laplace", moved, values))

    @property
    def rho(self) -> float | None:
        """ρ of s picks and values; the theorem of the one-shot method gives none."""
        if self.section.method == "oneshot_laplace":
            return None
        terms = self.terms
        moves = (1 if terms.relation == "add_remove" else 2) * terms.moved
        # The same quotient as that of a scale, rounded up: sensitivity over scale is the ε of a use.
        pick = accounting.laplace_scale(self.trial.scale, moves * terms.sensitivity)
        rho = Fraction(accounting.rho_bounded_range(pick) if self.section.method == "gumbel" else accounting.rho_pure(pick))
        if self.trial.value_scale is not None:
            value = accounting.laplace_scale(self.trial.value_scale, terms.sensitivity * terms.moved)
            rho += Fraction(accounting.rho_pure(value) if terms.is_shared else accounting.rho_laplace(value))
        return fraction_up(self.section.s * rho)

    def parameters(self) -> dict[str, Any]:
        return {"s": self.section.s, "candidates": self.cells.size, "method": self.section.method}

    @property
    def statistic(self) -> Statistic:
        return CellsOf(self.groups, self.cells.size)

    def release_each(self, total: Array, rng: Stream | None) -> dict[str, list[Any]]:
        """The chosen labels of each group, by draws that no other group has, and their noisy counts if wanted."""
        counts, section, labels = cells_in(total), self.section, self.cells.categories.listed()
        groups = len(counts)
        chosen = top_of_rows(section.method, counts, self.trial.scale, section.s, Draw(rng).of_groups(groups))
        estimator: dict[str, list[Any]] = {"value": [[labels[i] for i in row] for row in chosen.tolist()]}
        scale = self.trial.value_scale
        if scale is None:
            return {**estimator, "stderr": [None] * groups, "interval": [None] * groups}
        values = noisy_rows(np.take_along_axis(counts, chosen, axis=1).astype(np.float64), scale, Draw(rng).of_groups(groups))
        said = self._counts(values, scale)
        return {**estimator, "stderr": [said["stderr"]] * groups, "interval": said["interval"], "counts": said["counts"]}

    errs_in_rows = True

    def half_width(self, assumed: Assumed) -> float | None:  # noqa: ARG002
        """Rows that the s-th most frequent candidate has more than one that is chosen, at most."""
        return self.trial.behind(self.section.confidence)

    @property
    def behind(self) -> int | None:
        return math.floor(self.trial.behind(self.section.confidence))

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise of a released count."""
        scale = self.trial.value_scale
        return None if scale is None else laplace_deviation(scale)

    def _counts(self, values: Array, scale: float) -> dict[str, Any]:
        tail = _calibration.tail_probability(1 - self.section.confidence, 1)
        width = _calibration.laplace_width(scale, tail, default_grid(scale) / 2)
        return {
            "counts": values.tolist(),
            "stderr": laplace_deviation(scale),
            "interval": np.stack([values - width, values + width], axis=-1).tolist(),
        }


@dataclass(frozen=True, slots=True)
class Terms:
    """What a selection is calibrated for.

    Attributes
    ----------
    epsilon, delta : float
        Of one selection.
    sensitivity : int
        By how much one step of neighbours moves a count.
    relation : str
        Of these neighbours.
    moved : int
        Steps that are paid for: each with this ε and δ.
    is_shared : bool
        Whether the rows that move can be in several groups, each of which makes its own noise.
    scale : float or None
        Of all noise, where composition finds it here.
    """

    epsilon: float
    delta: float
    sensitivity: int
    relation: Relation
    moved: int = 1
    is_shared: bool = False
    scale: float | None = None

    @classmethod
    def of_table(cls, section: TopQuery, bound: Contribution, relation: Relation) -> Terms:
        """Of one selection from the whole table."""
        return cls(section.epsilon, section.delta, int(bound.count.l1), relation)

    @classmethod
    def of_groups(cls, section: TopQuery, bound: Contribution) -> Terms:
        """Of selections from several groups, which a unit's rows can be in; `sensitivity` proves them."""
        moved, shared = bound.moved, bound.moved > 1
        if section.delta == 0:
            return cls(share_of(section.epsilon, moved), 0.0, 1, "add_remove", moved, shared)
        if section.method == "oneshot_laplace":
            epsilon = share_of(section.epsilon, moved)
            return cls(epsilon, _delta_of_one(section, moved), 1, "add_remove", moved, shared)
        scale = _scale_with_values(section, moved) if section.values and shared else None
        return cls(section.epsilon, section.delta, moved, "add_remove", 1, shared, scale)


def _delta_of_one(section: TopQuery, moved: int) -> float:
    """The δ of one step such that so many steps of ε/moved have the query's: δ over 1 + e^ε₁ + … + e^((moved − 1)·ε₁), rounded down."""
    one = section.epsilon / moved
    # All terms but the first are rounded up by far more than exp and the sum can be wrong.
    return section.delta / (1 + (1 + 2.0**-40) * math.fsum(math.exp(step * one) for step in range(1, moved))) * (1 - 2.0**-50)


def _scale_with_values(section: TopQuery, moved: int) -> float:
    """The least scale of picks and values: the values of several groups are noised apart, so together they are pure and no more is used."""

    def uses(scale: float) -> list[accounting.Uses]:
        one, s = accounting.laplace_scale(scale, moved), section.s
        picks = accounting.Uses("bounded_range" if section.method == "gumbel" else "pure", uses=s, epsilon=one)
        return [picks, accounting.Uses("pure", uses=s, epsilon=one)]

    return accounting.least_scale(uses, Privacy(section.epsilon, section.delta), start=section.s * moved / section.epsilon).parameter


def _top(counts: Array, section: TopQuery, terms: Terms, rng: Stream | None) -> selection.Selection:
    method = section.method
    return selection.top_s(
        counts, terms.epsilon, terms.sensitivity, s=section.s, delta=terms.delta, method=method,
        scale=terms.scale if terms.scale is not None or method != "peeling" else "calibrated", values=section.values,
        relation=terms.relation, monotone=terms.relation == "add_remove" and method != "oneshot_laplace", rng=rng, threads=1,
    )  # fmt: skip
