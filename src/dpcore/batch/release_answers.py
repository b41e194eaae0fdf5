"""One class for each kind of query: what it adds up over the rows, exactly, and how it makes a private answer of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpcore import _backend, _calibration, accounting, selection
from dpcore._intervals import fraction_up
from dpcore.batch.release_cells import Binned, Declared, OnGrid, Reals, Within
from dpcore.local.additive import noise_variance
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.noise import default_grid
from dpcore.sums import ExactSum, clamped_sum

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.batch.release_cells import Cells
    from dpcore.batch.release_queries import CountQuery, HistogramQuery, MeanQuery, QuantileQuery, Query, SumQuery, TopQuery
    from dpcore.batch.release_sensitivity import Contribution
    from dpcore.privacy import Relation
    from dpcore.rng import Stream

    Array = npt.NDArray[Any]
    IntegerNoise = DiscreteLaplace | DiscreteGaussian
    RealNoise = Laplace | Gaussian

LAWS = {
    DiscreteLaplace: "discrete_laplace",
    DiscreteGaussian: "discrete_gaussian",
    Laplace: "laplace",
    Gaussian: "gaussian",
}


@dataclass(frozen=True, slots=True)
class Noise:
    """What a plan says about one draw: its law, the sensitivity that it hides and its scale."""

    law: str
    sensitivity: float
    scale: float

    def document(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"law": self.law, "sensitivity": self.sensitivity, "scale": self.scale}


class Answer(Protocol):
    """A query made ready."""

    @property
    def section(self) -> Query:
        """What the job says."""

    @property
    def cells(self) -> Cells | None:
        """How its column is read; None if it needs none."""

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws."""

    @property
    def rho(self) -> float | None:
        """Its ρ of zero-concentrated privacy, rounded up; None if none is known."""

    def declared(self) -> dict[str, Any]:
        """What the job says about the values, for the document."""

    def tally(self, read: Array) -> Any:
        """The exact statistic of some rows, given what `cells` read; the tallies of parts of a table are added with +."""

    def release(self, tally: Any, rng: Stream | None) -> dict[str, Any]:
        """A private answer: what the document says of it beyond name, kind and budget."""

    def expected_error(self, rows: int | None) -> float | None:
        """Standard error of the answer's noise for a table of so many rows, if it can be told."""


def _deviation(noise: IntegerNoise | RealNoise) -> float:
    return math.sqrt(noise_variance(LAWS[type(noise)], noise.scale))


def _described(noise: IntegerNoise | RealNoise) -> Noise:
    return Noise(LAWS[type(noise)], noise.sensitivity, noise.scale)


def _rho(noise: IntegerNoise | RealNoise) -> float:
    match noise:
        case Laplace():
            return accounting.rho_laplace(noise.epsilon)
        case DiscreteLaplace():
            return accounting.rho_pure(noise.epsilon)
        case _:
            return accounting.rho_gaussian(noise.scale, noise.sensitivity)


def _given(section: Query, *keys: str) -> dict[str, Any]:
    """Those of the keys that the job gives."""
    found = {key: getattr(section, key) for key in keys}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in found.items() if value is not None}


def _around(value: float, width: float) -> list[float]:
    return [value - width, value + width]


def _one_integer(epsilon: float, delta: float, sensitivity: int, relation: Relation) -> IntegerNoise:
    """Noise of a single count."""
    if delta == 0:
        return DiscreteLaplace(epsilon, sensitivity, relation=relation)
    return DiscreteGaussian(epsilon, delta, sensitivity, calibration="exact", relation=relation)


def _one_real(epsilon: float, delta: float, sensitivity: float, relation: Relation) -> RealNoise:
    """Noise of a single sum."""
    if delta == 0:
        return Laplace(epsilon, sensitivity, relation=relation)
    return Gaussian(epsilon, delta, sensitivity, relation=relation)


def _noisy(total: ExactSum, noise: RealNoise, rng: Stream | None) -> float:
    return float(total.noisy("laplace" if isinstance(noise, Laplace) else "gaussian", noise.scale, rng=rng, threads=1))


@dataclass(frozen=True, slots=True)
class CountAnswer:
    """Rows, all or some, with discrete noise of sensitivity m."""

    section: CountQuery
    cells: Within | Declared | None
    mechanism: IntegerNoise

    @classmethod
    def made(cls, section: CountQuery, cells: Within | Declared | None, bound: Contribution, relation: Relation) -> CountAnswer:
        """Calibrate it."""
        return cls(section, cells, _one_integer(section.epsilon, section.delta, bound.count, relation))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws."""
        return (_described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        """Of its one draw."""
        return _rho(self.mechanism)

    def declared(self) -> dict[str, Any]:
        """The condition."""
        return _given(self.section, "categories", "lower", "upper")

    def tally(self, read: Array) -> int:
        """How many rows count."""
        if self.cells is None:
            return len(read)
        return int(np.count_nonzero(read < self.cells.size)) if isinstance(self.cells, Declared) else int(np.count_nonzero(read))

    def release(self, tally: int, rng: Stream | None) -> dict[str, Any]:
        """The noisy number."""
        value = int(self.mechanism.release(tally, rng=rng, threads=1))
        width = self.mechanism.accuracy(1 - self.section.confidence)
        return {"value": value, "stderr": _deviation(self.mechanism), "interval": _around(value, width)}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise."""
        return _deviation(self.mechanism)


@dataclass(frozen=True, slots=True)
class HistogramAnswer:
    """Rows in each cell, with discrete noise for the ℓ1 or ℓ2 sensitivity of all cells together."""

    section: HistogramQuery
    cells: Binned | Declared
    mechanism: IntegerNoise

    @classmethod
    def made(cls, section: HistogramQuery, cells: Binned | Declared, bound: Contribution, relation: Relation) -> HistogramAnswer:
        """Calibrate it."""
        if section.delta == 0:
            return cls(section, cells, DiscreteLaplace(section.epsilon, bound.cells_l1, relation=relation))
        return cls(section, cells, DiscreteGaussian(section.epsilon, section.delta, bound.cells_l2, relation=relation))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws, for each cell."""
        return (_described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        """Of its one draw."""
        return _rho(self.mechanism)

    def declared(self) -> dict[str, Any]:
        """The cells, and what stands for others."""
        if isinstance(self.cells, Binned):
            return {"bins": list(self.cells.edges), **_given(self.section, "missing")}
        return {"categories": self.cells.categories.listed(), **_given(self.section, "missing", "unknown")}

    def tally(self, read: Array) -> Array:
        """Rows in each cell."""
        return _backend.code_counts(read, self.cells.size, threads=1)

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The noisy numbers; intervals are pointwise."""
        value = self.mechanism.release(tally, rng=rng, threads=1)
        width = self.mechanism.accuracy(1 - self.section.confidence)
        interval = np.stack([value - width, value + width], axis=-1)
        return {"value": value.tolist(), "stderr": _deviation(self.mechanism), "interval": interval.tolist()}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise of one cell."""
        return _deviation(self.mechanism)


@dataclass(frozen=True, slots=True)
class SumAnswer:
    """The exact sum of clamped numbers, with real noise."""

    section: SumQuery
    cells: Reals
    mechanism: RealNoise

    @classmethod
    def made(cls, section: SumQuery, cells: Reals, bound: Contribution, relation: Relation) -> SumAnswer:
        """Calibrate it."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        return cls(section, cells, _one_real(section.epsilon, section.delta, bound.total(section.lower, section.upper), relation))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws."""
        return (_described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        """Of its one draw."""
        return _rho(self.mechanism)

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        return _given(self.section, "lower", "upper", "missing")

    def tally(self, read: Array) -> ExactSum:
        """The sum."""
        return clamped_sum(read, self.section.lower, self.section.upper, threads=1)

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy sum."""
        value = _noisy(tally, self.mechanism, rng)
        width = self.mechanism.accuracy(1 - self.section.confidence)
        return {"value": value, "stderr": _deviation(self.mechanism), "interval": _around(value, width)}

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise."""
        return _deviation(self.mechanism)


@dataclass(frozen=True, slots=True)
class PublicMeanAnswer:
    """A noisy sum over the number of rows, which is public: neighbours have equally many."""

    section: MeanQuery
    cells: Reals
    mechanism: RealNoise

    @classmethod
    def made(cls, section: MeanQuery, cells: Reals, bound: Contribution, relation: Relation) -> PublicMeanAnswer:
        """Calibrate it."""
        clamped_sum(np.empty(0), section.lower, section.upper)
        return cls(section, cells, _one_real(section.epsilon, section.delta, bound.total(section.lower, section.upper), relation))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws, before the division."""
        return (_described(self.mechanism),)

    @property
    def rho(self) -> float | None:
        """Of its one draw."""
        return _rho(self.mechanism)

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        return _given(self.section, "lower", "upper", "missing")

    def tally(self, read: Array) -> ExactSum:
        """The sum, which knows how many rows it is of."""
        return clamped_sum(read, self.section.lower, self.section.upper, threads=1)

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy mean; of no rows there is none."""
        n = tally.n
        if n == 0:
            return {"value": None, "stderr": None, "interval": None, "note": "the table has no rows, and so no mean"}
        value = _noisy(tally, self.mechanism, rng) / n
        width = self.mechanism.accuracy(1 - self.section.confidence) / n
        return {"value": value, "stderr": _deviation(self.mechanism) / n, "interval": _around(value, width)}

    def expected_error(self, rows: int | None) -> float | None:
        """Standard deviation of the noise."""
        return _deviation(self.mechanism) / rows if rows else None


@dataclass(frozen=True, slots=True)
class PrivateMeanAnswer:
    """A noisy sum over a noisy number of rows, each for half of ε and δ.

    The numbers are summed as their distances from the middle of [lower, upper]: the sensitivity is then half the width per row,
    wherever the bounds lie.
    """

    section: MeanQuery
    cells: Reals
    total: RealNoise
    count: IntegerNoise
    middle: float
    half_width: float

    @classmethod
    def made(cls, section: MeanQuery, cells: Reals, bound: Contribution, relation: Relation) -> PrivateMeanAnswer:
        """Calibrate both."""
        middle = section.lower / 2 + section.upper / 2
        half_width = fraction_up(max(Fraction(section.upper) - Fraction(middle), Fraction(middle) - Fraction(section.lower)))
        clamped_sum(np.empty(0), -half_width, half_width)
        epsilon, delta = section.epsilon / 2, section.delta / 2
        total = _one_real(epsilon, delta, bound.centred_total(half_width), relation)
        return cls(section, cells, total, _one_integer(epsilon, delta, bound.count, relation), middle, half_width)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws."""
        return (_described(self.total), _described(self.count))

    @property
    def rho(self) -> float | None:
        """Of both draws."""
        return fraction_up(Fraction(_rho(self.total)) + Fraction(_rho(self.count)))

    def declared(self) -> dict[str, Any]:
        """The bounds."""
        return _given(self.section, "lower", "upper", "missing")

    def tally(self, read: Array) -> ExactSum:
        """The sum of distances from the middle."""
        return clamped_sum(read.astype(np.float64) - self.middle, -self.half_width, self.half_width, threads=1)

    def release(self, tally: ExactSum, rng: Stream | None) -> dict[str, Any]:
        """The noisy mean, clamped to the bounds, which costs nothing."""
        total, count = _noisy(tally, self.total, rng), int(self.count.release(tally.n, rng=rng, threads=1))
        value = self._mean(total, count)
        return {
            "value": value,
            "stderr": math.hypot(_deviation(self.total), (value - self.middle) * _deviation(self.count)) / max(count, 1),
            "interval": self._interval(total, count),
            "count": count,
        }

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """It depends on the number of rows, which is private."""
        return None

    def _mean(self, total: float, count: int) -> float:
        return min(max(self.middle + total / max(count, 1), self.section.lower), self.section.upper)

    def _interval(self, total: float, count: int) -> list[float]:
        """What sum and count can be, each with half of the error probability; their quotient is monotone in both."""
        beta = (1 - self.section.confidence) / 2
        sums, counts = _around(total, self.total.accuracy(beta)), (count - self.count.accuracy(beta), count + self.count.accuracy(beta))
        corners = [self._mean(a, b) for a in sums for b in counts]
        return [min(corners), max(corners)]


@dataclass(frozen=True, slots=True)
class QuantileAnswer:
    r"""A point of the grid by the exponential mechanism, for each level q.

    Numbers are rounded up to the grid (and those beyond it to its last point). With C(g) of n rows at or below g the utility of g is
    −max(0, C(g⁻) − q·n, q·n − C(g)), g⁻ the point before g: the distance in rows of g from being a q-quantile. It is 0 for some g,
    and is computed exactly, as an integer: q = a/b, and everything is multiplied by b.
    """

    section: QuantileQuery
    cells: OnGrid
    sensitivities: tuple[int, ...]
    relation: Relation

    @classmethod
    def made(cls, section: QuantileQuery, cells: OnGrid, bound: Contribution, relation: Relation) -> QuantileAnswer:
        """Levels share ε equally."""
        return cls(section, cells, tuple(bound.rank(*level.as_integer_ratio()) for level in _levels(section)), relation)

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws, for each level; sensitivity and scale in rows."""
        ranks = [sensitivity / level.denominator for sensitivity, level in zip(self.sensitivities, _levels(self.section), strict=True)]
        return tuple(Noise("gumbel", rank, 2 * rank / self._epsilon) for rank in ranks)

    @property
    def _epsilon(self) -> float:
        share = self.section.epsilon / len(self.section.q)
        # Rounded down: the parts must not sum to more than ε.
        return share if Fraction(share) * len(self.section.q) <= Fraction(self.section.epsilon) else math.nextafter(share, 0.0)

    @property
    def rho(self) -> float | None:
        """Of a draw for each level."""
        return fraction_up(len(self.section.q) * Fraction(accounting.rho_bounded_range(self._epsilon)))

    def declared(self) -> dict[str, Any]:
        """Levels and grid."""
        q = self.section.q
        return {"q": q[0] if len(q) == 1 else list(q), "grid": list(self.cells.grid), **_given(self.section, "missing")}

    def tally(self, read: Array) -> Array:
        """Rows at each point."""
        return _backend.code_counts(read, self.cells.size, threads=1)

    def utilities(self, tally: Array, level: Fraction) -> Array:
        """Utility of each point, times the denominator of the level."""
        at_or_below = np.cumsum(tally)
        target, b = level.numerator * int(tally.sum()), level.denominator
        utilities: Array = np.minimum(0, np.minimum(target - b * (at_or_below - tally), b * at_or_below - target))
        return utilities

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The chosen points; how far off in rows they can be."""
        chosen = [
            selection.exponential_mechanism(
                self.utilities(tally, level), self._epsilon, sensitivity, relation=self.relation, rng=rng, threads=1
            )
            for level, sensitivity in zip(_levels(self.section), self.sensitivities, strict=True)
        ]
        values = [self.cells.grid[index] for index in chosen]
        errors = self.rank_errors()
        one = len(values) == 1
        return {
            "value": values[0] if one else values,
            "stderr": None,
            "interval": None,
            "rank_error": errors[0] if one else errors,
        }

    def rank_errors(self) -> list[float]:
        """Rows by which the rank of each answer misses q·n at most, at the query's confidence."""
        tail = math.log(self.cells.size / (1 - self.section.confidence))
        return [noise.scale * tail for noise in self.noise]

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """It depends on the data how far apart ranks are."""
        return None


def _levels(section: QuantileQuery) -> tuple[Fraction, ...]:
    """The levels as the decimals that were written."""
    return tuple(Fraction(repr(level)) for level in section.q)


@dataclass(frozen=True, slots=True)
class TopAnswer:
    """The s most frequent candidates, in order of selection."""

    section: TopQuery
    cells: Declared
    sensitivity: int
    relation: Relation
    trial: selection.Selection

    @classmethod
    def made(cls, section: TopQuery, cells: Declared, bound: Contribution, relation: Relation) -> TopAnswer:
        """Calibrate it by a trial on no rows."""
        none = np.zeros(cells.size, np.int64)
        return cls(section, cells, bound.count, relation, _top(none, section, bound.count, relation, None))

    @property
    def noise(self) -> tuple[Noise, ...]:
        """What it draws."""
        choice = Noise("gumbel" if self.section.method == "gumbel" else "laplace", self.sensitivity, self.trial.scale)
        values = self.trial.value_scale
        return (choice,) if values is None else (choice, Noise("laplace", self.sensitivity, values))

    @property
    def rho(self) -> float | None:
        """Of s picks and values; the theorem of the one-shot method gives none."""
        if self.section.method == "oneshot_laplace":
            return None
        moves = 1 if self.relation == "add_remove" else 2
        pick = accounting.laplace_scale(self.trial.scale, moves * self.sensitivity)
        rho = Fraction(accounting.rho_bounded_range(pick) if self.section.method == "gumbel" else accounting.rho_pure(pick))
        if self.trial.value_scale is not None:
            rho += Fraction(accounting.rho_laplace(accounting.laplace_scale(self.trial.value_scale, self.sensitivity)))
        return fraction_up(self.section.s * rho)

    def declared(self) -> dict[str, Any]:
        """How many candidates there are."""
        return {"s": self.section.s, "candidates": self.cells.size, "method": self.section.method}

    def tally(self, read: Array) -> Array:
        """Rows of each candidate."""
        return _backend.code_counts(read, self.cells.size + 1, threads=1)[:-1]

    def release(self, tally: Array, rng: Stream | None) -> dict[str, Any]:
        """The chosen labels, and their noisy counts if wanted."""
        found = _top(tally, self.section, self.sensitivity, self.relation, rng)
        labels = self.cells.categories.listed()
        answer: dict[str, Any] = {"value": [labels[index] for index in found.indices], "stderr": None, "interval": None}
        if found.values is None or found.value_scale is None:
            return answer
        return answer | self._counts(found.values, found.value_scale)

    def expected_error(self, rows: int | None) -> float | None:  # noqa: ARG002
        """Standard deviation of the noise of a released count."""
        scale = self.trial.value_scale
        return None if scale is None else math.sqrt(noise_variance("laplace", scale))

    def _counts(self, values: Array, scale: float) -> dict[str, Any]:
        tail = _calibration.tail_probability(1 - self.section.confidence, 1)
        width = _calibration.laplace_width(scale, tail, default_grid(scale) / 2)
        return {
            "counts": values.tolist(),
            "stderr": math.sqrt(noise_variance("laplace", scale)),
            "interval": np.stack([values - width, values + width], axis=-1).tolist(),
        }


def _top(counts: Array, section: TopQuery, sensitivity: int, relation: Relation, rng: Stream | None) -> selection.Selection:
    method = section.method
    return selection.top_s(
        counts, section.s, section.epsilon, sensitivity, delta=section.delta, method=method,
        scale="calibrated" if method == "peeling" else None, values=section.values, relation=relation,
        monotone=relation == "add_remove" and method != "oneshot_laplace", rng=rng, threads=1,
    )  # fmt: skip
