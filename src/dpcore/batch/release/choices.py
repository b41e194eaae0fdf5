"""The kinds of queries that choose: quantiles among the points of a grid, and the most frequent of declared candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore import _backend, accounting, selection
from dpcore._exact.intervals import fraction_up
from dpcore.accounting import _calibration
from dpcore.batch.release.answers import Noise, OneColumn, given, laplace_deviation
from dpcore.batch.release.cells import Declared, OnGrid
from dpcore.batch.release.draws import Draw
from dpcore.noise import default_grid
from dpcore.privacy import Privacy
from dpcore.selection._plan import argmax_scale
from dpcore.selection._rows import best_of_rows, noisy_rows, top_of_rows

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release.queries import MedianQuery, QuantileQuery, TopQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Chosen = QuantileQuery | MedianQuery
    Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class QuantileAnswer(OneColumn):
    r"""A point of the grid by the exponential mechanism, for each level q.

    Numbers are rounded up to the grid (and those beyond it to its last point). With C(g) of n rows at or below g the utility of g is
    −max(0, C(g⁻) − q·n, q·n − C(g)), g⁻ the point before g: the distance in rows of g from being a q-quantile. It is 0 for some g,
    and is computed exactly, as an integer: q = a/b, and everything is multiplied by b.
    """

    section: Chosen
    cells: OnGrid
    sensitivities: tuple[int, ...]
    epsilon: float
    relation: Relation
    moved: int = 1

    @classmethod
    def made(cls, section: Chosen, cells: OnGrid, bound: Contribution, relation: Relation, groups: int = 0) -> QuantileAnswer:
        """Levels share ε equally. Of several groups each has the ε of one row, of which all rows that a unit moves take their share."""
        apart = groups > 1
        moved, one = (bound.moved, bound.of_one_row) if apart else (1, bound)
        epsilon = share_of(section.epsilon, len(section.q) * moved)
        relation = "add_remove" if apart else relation
        sensitivities = tuple(one.rank(level) for level in _levels(section))
        # A trial: what the mechanism refuses must be refused before anything is spent.
        selection.exponential_mechanism(np.zeros(1, np.int64), epsilon, max(sensitivities), relation=relation)
        return cls(section, cells, sensitivities, epsilon, relation, moved)

    @property
    def fewest_cells(self) -> int:
        """The points of the grid."""
        return self.cells.size

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise for each level; sensitivity and scale in rows."""
        ranks = [sensitivity / level.denominator for sensitivity, level in zip(self.sensitivities, _levels(self.section), strict=True)]
        return tuple(Noise("gumbel", rank * self.moved, 2 * rank / self.epsilon) for rank in ranks)

    @property
    def rho(self) -> float | None:
        """ρ of the draws for all levels: those for all groups together have the bounded range of all rows that move."""
        whole = fraction_up(self.moved * Fraction(self.epsilon))
        return fraction_up(len(self.section.q) * Fraction(accounting.rho_bounded_range(whole)))

    def declared(self) -> dict[str, Any]:
        """Levels and grid."""
        q = self.section.q
        return {"q": q[0] if len(q) == 1 else list(q), "grid": list(self.cells.grid), **given(self.section, "missing")}

    def tally(self, rows: int, read: list[Array]) -> Array:  # noqa: ARG002
        """Rows at each point; the code that follows is that of rows that are skipped."""
        return _backend.code_counts(read[0], self.cells.size + 1, threads=1)[:-1]

    def utilities(self, tally: Array, level: Fraction) -> Array:
        """Utility of each point, times the denominator of the level; of several groups a row for each."""
        at_or_below = np.cumsum(tally, axis=-1)
        # below 2^62, of 2^40 rows and 10^6, the largest denominator
        target, b = level.numerator * at_or_below[..., -1:], level.denominator
        utilities: Array = np.minimum(0, np.minimum(target - b * (at_or_below - tally), b * at_or_below - target))
        return utilities

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The chosen points; how far off in rows they can be."""
        chosen = [
            selection.exponential_mechanism(
                self.utilities(tally, level), self.epsilon, sensitivity, relation=self.relation, rng=rng, threads=1
            )
            for level, sensitivity in zip(_levels(self.section), self.sensitivities, strict=True)
        ]
        values = [self.cells.grid[index] for index in sorted(chosen)]
        one = len(values) == 1
        return {"value": values[0] if one else values, "stderr": None, "interval": None, "rank_error": self._rank_error()}

    def release_of_groups(self, counts: Array, rng: Stream | None) -> dict[str, Any]:
        """For each key of an answer the list over groups, given the rows of each at each point: as `release` of each group would."""
        groups, found = len(counts), []
        for level, sensitivity in zip(_levels(self.section), self.sensitivities, strict=True):
            scale = argmax_scale(self.epsilon, sensitivity, 1, self.relation, monotone=False)
            found.append(best_of_rows(self.utilities(counts, level), scale, Draw(rng).of_groups(groups)))
        grid, chosen = self.cells.grid, np.sort(np.stack(found, axis=1), axis=1)
        values = [grid[row] for row in chosen[:, 0].tolist()] if len(found) == 1 else [[grid[i] for i in row] for row in chosen.tolist()]
        return {"value": values, "stderr": [None] * groups, "interval": [None] * groups, "rank_error": [self._rank_error()] * groups}

    def _rank_error(self) -> float | list[float]:
        errors = self.rank_errors()
        return errors[0] if len(errors) == 1 else errors

    def rank_errors(self) -> list[float]:
        """Rows by which the ranks of all answers miss q·n at most, together, at the query's confidence."""
        levels = len(self.section.q)
        tail = math.log(levels * self.cells.size / (1 - self.section.confidence))
        return [max(noise.scale for noise in self.noise) * tail] * levels


def _levels(section: Chosen) -> tuple[Fraction, ...]:
    """The levels as the decimals that were written."""
    return tuple(Fraction(repr(level)) for level in section.q)


def share_of(epsilon: float, parts: int) -> float:
    """ε over a number of parts, rounded down: the parts must not sum to more than ε."""
    share = epsilon / parts
    return share if Fraction(share) * parts <= Fraction(epsilon) else math.nextafter(share, 0.0)


@dataclass(frozen=True, slots=True)
class TopAnswer(OneColumn):
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
    cells: Declared
    terms: Terms
    trial: selection.Selection

    @classmethod
    def made(cls, section: TopQuery, cells: Declared, bound: Contribution, relation: Relation, groups: int = 0) -> TopAnswer:
        """Calibrate it by a trial on no rows."""
        terms = Terms.of_groups(section, bound) if groups > 1 else Terms.of_table(section, bound, relation)
        return cls(section, cells, terms, _top(np.zeros(cells.size, np.int64), section, terms, None))

    @property
    def fewest_cells(self) -> int:
        """The candidates."""
        return self.cells.size

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise that it draws."""
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

    def declared(self) -> dict[str, Any]:
        """The number of candidates."""
        return {"s": self.section.s, "candidates": self.cells.size, "method": self.section.method}

    def tally(self, rows: int, read: list[Array]) -> Array:  # noqa: ARG002
        """Rows of each candidate."""
        return _backend.code_counts(read[0], self.cells.size + 1, threads=1)[:-1]

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The chosen labels, and their noisy counts if wanted."""
        found = _top(tally, self.section, self.terms, rng)
        labels = self.cells.categories.listed()
        answer: dict[str, Any] = {"value": [labels[index] for index in found.indices], "stderr": None, "interval": None}
        if found.values is None or found.value_scale is None:
            return answer
        return answer | self._counts(found.values, found.value_scale)

    def release_of_groups(self, counts: Array, rng: Stream | None) -> dict[str, Any]:
        """For each key of an answer the list over groups, given the rows of each candidate: as `release` of each group would."""
        groups, section, labels = len(counts), self.section, self.cells.categories.listed()
        chosen = top_of_rows(section.method, counts, self.trial.scale, section.s, Draw(rng).of_groups(groups))
        answer = {"value": [[labels[i] for i in row] for row in chosen.tolist()]}
        scale = self.trial.value_scale
        if scale is None:
            return {**answer, "stderr": [None] * groups, "interval": [None] * groups}
        values = noisy_rows(np.take_along_axis(counts, chosen, axis=1).astype(np.float64), scale, Draw(rng).of_groups(groups))
        said = self._counts(values, scale)
        return {**answer, "stderr": [said["stderr"]] * groups, "interval": said["interval"], "counts": said["counts"]}

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
