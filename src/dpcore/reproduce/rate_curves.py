"""Errors of the releases of Wasserman & Zhou (2010) against the number of records, beside their rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.distributions import tuning
from dpcore.distributions.distances import ks_distance, squared_l2_distance
from dpcore.distributions.exponential import l2_exponential
from dpcore.distributions.ks import ks_exponential
from dpcore.reproduce import releases
from dpcore.reproduce.densities import Cosines, Cube, Law, Linear
from dpcore.reproduce.estimates import SIGNIFICANCE, Mean, compared, mean_of
from dpcore.reproduce.results import Check, Role, Series, Slope, floats
from dpcore.reproduce.setting import Setting
from dpcore.rng import Stream

EPSILON = 1.0
"""α of the document."""
LINE = Linear(1.0)
"""Lipschitz: p(x) = ½ + x."""
LARGEST = 1.5
"""sup p."""
SERIES = Cosines(2.0, 0.4)
"""Of the Sobolev space of order γ < 2, and just not of order 2: what is left after m terms is of the order m^(−2γ) exactly."""
TOLERANCE = 0.05
"""Tolerance of slopes, in addition to two standard errors."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Curve:
    """Errors of a release, of n records, for each n.

    Attributes
    ----------
    name : str
        Name of the release.
    mechanism, distance : str
        Names for `distributions.rate`.
    n : tuple of int
        Numbers of records.
    means : tuple of Mean
        Mean errors and their standard errors.
    runs : tuple of int
        Numbers of data sets.
    options : dict
        Dimension or smoothness.
    own : tuple of float or None
        Exact expectations of the error, constants included, where they are known.
    """

    name: str
    mechanism: str
    distance: str
    n: tuple[int, ...]
    means: tuple[Mean, ...]
    runs: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict)
    own: tuple[float, ...] | None = None

    @property
    def rates(self) -> list[tuning.Rate]:
        """The rate at each n."""
        return [tuning.rate(self.mechanism, self.distance, n=n, **self.options) for n in self.n]

    @property
    def slope(self) -> Slope:
        """The measured exponent beside that of the document's formula, logarithms included."""
        return compared(self.name, "n", self.n, self.means, [rate.value for rate in self.rates], self.own)

    @property
    def plain(self) -> Slope:
        """The measured exponent beside that of the document's formula without its logarithms."""
        return compared(
            f"{self.name}, without logarithm",
            "n",
            self.n,
            self.means,
            [n**rate.exponent for n, rate in zip(self.n, self.rates, strict=True)],
        )

    def measured(self, role: Role = "measured", *, name: str | None = None) -> Series:
        """Return points with standard errors."""
        values, errors = floats(mean.value for mean in self.means), floats(mean.stderr for mean in self.means)
        return Series(name or self.name, floats(self.n), values, errors, role)

    def through(self, name: str, role: Role = "theory", *, logarithm: bool = True) -> Series:
        """Return the rate as a line through the last point, because orders have no constants."""
        values = [rate.value if logarithm else n**rate.exponent for n, rate in zip(self.n, self.rates, strict=True)]
        return Series(name, floats(self.n), floats(value * self.means[-1].value / values[-1] for value in values), None, role)

    def exactly(self, name: str, role: Role = "second theory") -> Series:
        """Return the exact expectation of the error."""
        return Series(name, floats(self.n), floats(self.own or ()), None, role)


def near(slope: Slope, setting: Setting, *, own: bool = False) -> Check:
    """Check that a slope agrees with the theory, or with the exact expectation of the estimator's error."""
    tolerance = setting.sized(TOLERANCE, 2 * TOLERANCE) + 2 * slope.stderr
    expected = slope.own if own and slope.own is not None else slope.theory
    of = "the estimator's own slope" if own else "the theory"
    return Check(
        f"{slope.part}: the slope agrees with {of}",
        f"{abs(slope.measured - expected):.3f} off",
        f"two standard errors and {tolerance - 2 * slope.stderr:g}",
        abs(slope.measured - expected) <= tolerance,
    )


def as_computed(curve: Curve) -> Check:
    """Check that all points agree with their exact expectations, by Student's t, because there are few data sets of 10^7 records."""
    from scipy import stats

    off = [(mean.value - own) / mean.stderr for mean, own in zip(curve.means, curve.own or (), strict=True)]
    chances = [2 * stats.t.sf(abs(t), runs - 1) for t, runs in zip(off, curve.runs, strict=True)]
    return Check(
        f"{curve.name}: all errors agree with their exact expectations",
        f"at most {max(map(abs, off)):.1f} standard errors off, the least p-value is {min(chances):.2g}",
        "10⁻⁶ each",
        bool(min(chances) > SIGNIFICANCE),
    )


def sizes(setting: Setting, last: int) -> tuple[int, ...]:
    """Return two sizes for each power of ten from 10^3 to 10^last; for a quick run, to 10^4 or 10^5."""
    steps = 2 * (min(last, setting.sized(last, 5)) - 3)
    return tuple(round(10 ** (3 + i / 2)) for i in range(steps + 1))


def curve(
    names: tuple[str, str, str],
    n: Sequence[int],
    errors: Callable[[int], Array],
    own: Callable[[int], float] | None = None,
    **options: Any,
) -> Curve:
    """Measure a release of a name, a mechanism and a distance at all sizes."""
    found = [errors(size) for size in n]
    expected = None if own is None else tuple(own(size) for size in n)
    return Curve(*names, tuple(n), tuple(map(mean_of, found)), tuple(map(len, found)), options, expected)


# The releases


def _law(dimension: int) -> Law:
    return LINE if dimension == 1 else Cube(LINE, dimension)


def smoothed_l2(setting: Setting, dimension: int = 1) -> Curve:
    """Squared L2 error of the draws of smoothed histograms, tuned by Theorem 4.3."""
    law, replicates = _law(dimension), setting.sized(400, 60)

    def tuned(n: int) -> tuning.Tuning:
        return tuning.smoothed_histogram_l2(EPSILON, n=n, dimension=dimension)

    def errors(n: int) -> Array:
        draws = releases.smoothed_draws(law, n, tuned(n), replicates, setting.stream("smoothed l2", dimension, n))
        return releases.draws_l2(law, draws, tuned(n).bins or 1)

    names = f"smoothed histogram, L2, r = {dimension}", "smoothed_histogram", "l2"
    return curve(names, sizes(setting, 7), errors, lambda n: releases.smoothed_l2_risk(law, n, tuned(n)), dimension=dimension)


def smoothed_ks(setting: Setting) -> Curve:
    """KS distance of the draws of smoothed histograms, tuned by Theorem 4.2."""
    replicates = setting.sized(400, 60)

    def errors(n: int) -> Array:
        tuned, stream = tuning.smoothed_histogram_ks(EPSILON, n=n), setting.stream("smoothed ks", n)
        draws = releases.smoothed_draws(LINE, n, tuned, replicates, stream)
        return releases.draws_ks(LINE, draws, tuned.bins or 1, stream)

    return curve(("smoothed histogram, KS", "smoothed_histogram", "ks"), sizes(setting, 7), errors)


def perturbed_l2(setting: Setting, dimension: int = 1) -> Curve:
    """Squared L2 error of perturbed histograms, tuned by Theorem 4.4."""
    law, replicates = _law(dimension), setting.sized(400 if dimension == 1 else 100, 60)

    def bins(n: int) -> int:
        return tuning.perturbed_histogram_bins(n=n, dimension=dimension).bins or 1

    def errors(n: int) -> Array:
        return law.squared_error(releases.perturbed(law, n, bins(n), EPSILON, replicates, setting.stream("perturbed l2", dimension, n)))

    names = f"perturbed histogram, L2, r = {dimension}", "perturbed_histogram", "l2"
    n = sizes(setting, 7 if dimension == 1 else 6)
    return curve(names, n, errors, lambda n: releases.perturbed_l2_risk(law, n, bins(n), EPSILON), dimension=dimension)


def perturbed_ks(setting: Setting) -> Curve:
    """KS distance of perturbed histograms, tuned by Theorem 4.4."""
    replicates = setting.sized(400, 60)

    def errors(n: int) -> Array:
        bins = tuning.perturbed_histogram_bins(n=n).bins or 1
        return releases.histogram_ks(LINE, releases.perturbed(LINE, n, bins, EPSILON, replicates, setting.stream("perturbed ks", n)))

    return curve(("perturbed histogram, KS", "perturbed_histogram", "ks"), sizes(setting, 7), errors)


def series(setting: Setting) -> Curve:
    """Squared L2 error of orthogonal series, tuned by Theorem 6.3."""
    gamma = SERIES.smoothness

    def terms(n: int) -> int:
        return tuning.orthogonal_series_terms(n=n, smoothness=gamma).terms or 1

    def errors(n: int) -> Array:
        # of 10^7 records, eight data sets; their errors vary little, being sums over many terms
        replicates = max(8, min(setting.sized(100, 20), round(3e7 / n)))
        return releases.series_errors(SERIES, n, terms(n), EPSILON, replicates, setting.stream("series", n))

    names = "orthogonal series", "orthogonal_series", "l2"
    return curve(names, sizes(setting, 7), errors, lambda n: releases.series_risk(SERIES, n, terms(n), EPSILON), smoothness=gamma)


# The exponential mechanisms


def exponential_l2(setting: Setting) -> Curve:
    """Squared L2 distance of `l2_exponential`, tuned by Theorem 6.2, for sizes whose draws have two coefficients."""
    gamma, replicates = SERIES.smoothness, setting.sized(100, 30)

    def tuned(n: int) -> tuning.Tuning:
        return tuning.l2_exponential_draws(n=n, smoothness=gamma)

    def error(n: int, stream: Stream) -> float:
        sizes, x = tuned(n), SERIES.records(n, stream)
        released = l2_exponential(
            x, EPSILON, (0, 1), draws=sizes.draws or 1, terms=sizes.terms or 1, draw_terms=sizes.draw_terms, rng=stream
        )
        return squared_l2_distance(released, SERIES.pdf)

    def errors(n: int) -> Array:
        stream = setting.stream("exponential l2", n)
        return np.array([error(n, stream) for _ in range(replicates)])

    return curve(
        ("exponential mechanism, L2", "l2_exponential", "l2"),
        setting.sized((300, 1000, 3000, 9000), (300, 3000)),
        errors,
        lambda n: releases.series_draws_risk(SERIES, n, tuned(n), EPSILON),
        smoothness=gamma,
    )


@dataclass(frozen=True, slots=True)
class Exponential:
    """KS distances of the exponential mechanism: of draws from the truth, of draws from the data, and of the data from the truth.

    Attributes
    ----------
    truth, data, records : Curve
        The three distances.
    beyond : int
        Number of runs whose distance from the truth exceeds ε_n of the theorem.
    runs : int
        Number of runs.
    """

    truth: Curve
    data: Curve
    records: Curve
    beyond: int
    runs: int


def exponential_ks(setting: Setting) -> Exponential:
    """Release 10^2.5 to 10^4 records by `ks_exponential`, tuned by Theorem 5.4."""
    n = tuple(round(10 ** (2.5 + i / 2)) for i in range(setting.sized(4, 3)))
    found = [_runs(size, setting.sized(60, 20), setting.stream("exponential", size)) for size in n]

    def measured(name: str, mechanism: str, row: int, own: Callable[[int], float]) -> Curve:
        columns = [each[row] for each in found]
        return Curve(name, mechanism, "ks", n, tuple(map(mean_of, columns)), tuple(map(len, columns)), {}, tuple(map(own, n)))

    limits = [2 * (math.log(LARGEST) / (3 * EPSILON * size)) ** (1 / 3) for size in n]
    return Exponential(
        measured("draws from the truth", "ks_exponential", 0, _records_part),
        measured("draws from the data", "ks_exponential", 1, _data_part),
        measured("data from the truth", "minimax", 2, _records_part),
        sum(int((each[0] > limit).sum()) for each, limit in zip(found, limits, strict=True)),
        sum(each.shape[1] for each in found),
    )


def _tuned(n: int) -> tuning.Tuning:
    return tuning.ks_exponential_draws(EPSILON, n=n, largest_density=LARGEST)


def _runs(n: int, replicates: int, stream: Stream) -> Array:
    """Three rows of distances."""
    return np.array([_distances(LINE.records(n, stream), _tuned(n), stream) for _ in range(replicates)]).T


def _distances(x: Array, tuned: tuning.Tuning, stream: Stream) -> tuple[float, float, float]:
    released = ks_exponential(x, EPSILON, (0, 1), draws=tuned.draws or 1, bins=tuned.bins or 1, rng=stream)
    return ks_distance(released, LINE.cdf), ks_distance(released, x), ks_distance(x, LINE.cdf)


def _data_part(n: int) -> float:
    """Where e^(−εnt/2), the mechanism's weight, times e^(−π²/(8kt²)), the small ball probability of k draws, is largest in t."""
    return float((math.pi**2 / (2 * EPSILON * n * (_tuned(n).draws or 1))) ** (1 / 3))


def _records_part(n: int) -> float:
    """Expected distance of n records from the truth, for large n."""
    return releases.KOLMOGOROV / math.sqrt(n)


class Curves:
    """All curves; each is measured at its first use."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    @cached_property
    def smoothed_l2(self) -> tuple[Curve, Curve]:
        """For r = 1 and r = 2."""
        return smoothed_l2(self.setting), smoothed_l2(self.setting, 2)

    @cached_property
    def perturbed_l2(self) -> tuple[Curve, Curve]:
        """For r = 1 and r = 2."""
        return perturbed_l2(self.setting), perturbed_l2(self.setting, 2)

    @cached_property
    def smoothed_ks(self) -> Curve:
        """KS distance of smoothed histograms."""
        return smoothed_ks(self.setting)

    @cached_property
    def perturbed_ks(self) -> Curve:
        """KS distance of perturbed histograms."""
        return perturbed_ks(self.setting)

    @cached_property
    def exponential(self) -> Exponential:
        """KS distances of the exponential mechanism."""
        return exponential_ks(self.setting)

    @cached_property
    def exponential_l2(self) -> Curve:
        """Squared L2 distance of the exponential mechanism."""
        return exponential_l2(self.setting)

    @cached_property
    def series(self) -> Curve:
        """Squared L2 distance of orthogonal series."""
        return series(self.setting)
