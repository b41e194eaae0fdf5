"""A mean whose range is found by a part of the reports: docs/adaptive-estimators.md has the proof."""

from __future__ import annotations

import math
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._html import facts_table
from dpcore._validation import REAL_DTYPES, check_array, check_integer, check_positive, check_real
from dpcore.errors import DataError, ParameterError
from dpcore.local import BinaryResponse
from dpcore.local._mechanism import open_stream
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import check_epsilon
from dpcore.local.estimates import check_confidence
from dpcore.minimax._binomial import MOST_REPORTS, below
from dpcore.minimax.linear.estimator import LinearEstimator
from dpcore.minimax.linear.ready_made import largest_clipping_bias
from dpcore.minimax.linear.weights import Shifted
from dpcore.privacy import LocallyGuaranteed, Privacy

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

    Array = npt.NDArray[np.float64]
    Bits = npt.NDArray[np.bool_]

MOST_TESTS = 60
LARGEST_BOUND = 2.0**400
LARGEST_LEVEL = 2.0**450
"""Levels beyond this, and biases, give a risk of more than the squared length of any range."""
TAILS = np.linspace(0.05, 0.45, 17)
"""Shares of records beyond the margin that are tried."""
GROUPS, LEVELS = 128, 128
"""Sizes of a group, and clipping levels, that are tried."""
_UP, _DOWN = 1 + 2.0**-40, 1 - 2.0**-40
"""Outweigh the roundings of a bound, some twenty of 2^-53."""


def check_no_nan(values: npt.NDArray[Any]) -> None:
    """Raise at the first NaN."""
    absent = np.isnan(values)
    if absent.any():
        raise DataError(f"records must not hold NaN; the number at index {int(absent.argmax())} is NaN")


@dataclass(frozen=True)
class _Stages:
    """How reports are used."""

    tests: int
    group: int
    margin: float
    radius: float
    failure: float
    level: float
    bias: float
    risk: float


@dataclass(frozen=True)
class TwoStageMean(LocallyGuaranteed):
    r"""Estimate a mean of which only a wide range is known: a part of the reports finds a narrow one, the others estimate in it.

    Parameters
    ----------
    epsilon : float
        Privacy loss ε of one report, in [2^−20, 700].
    n : int
        Number of reports, in [1, 2^40].
    lower, upper : float
        Bounds of the mean θ = E X, in [−2^400, 2^400], lower < upper. Records may lie outside.
    kappa : float
        Order of the moment, κ in (1, 1024].
    C : float
        Bound of E\|X − θ\|^κ, positive.
    tests : int, optional
        Number T of halvings, in [0, 60]. By default T and `group` are those with the smallest `risk_bound`.
    group : int, optional
        Reports m for each of them, odd; required with `tests`, unless T is 0.

    Attributes
    ----------
    tests, group : int
        T and m.
    radius : float
        r: the distance between θ and the middle of the range that is found.
    failure : float
        Bound of the probability that it is larger.
    level : float
        H: numbers are clipped at the middle ± H.
    bias : float
        What clipping changes at most, if the range is right.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: each record makes one report, which is ε-DP given the earlier ones; all reports together are ε-DP in each record
    (Steinberger, 2019, Korollar 1.10), whether or not the moment is bounded.

    Stage 1 halves [lower, upper] T times. m new records say by randomised response whether they are above the middle, and the majority is
    believed. If θ is at least t above the middle, a record is below it with probability at most τ = τ(t), so a majority errs with at most
    the binomial probability P(Bin(m, q + (1 − τ)(p − q)) < m/2), p = e^ε/(1 + e^ε), q = 1 − p. With probability at least 1 − T·(that), θ is
    within r = (upper − lower)/2^(T + 1) + t of the middle c that remains. Stage 2 is the linear estimator of clip(X − c, ±H), whose bias is
    at most sup E(\|X − θ\| − (H − r))₊; the estimate is cut to [lower, upper]. So, for every distribution with the moment,

        E(θ̂ − θ)² ≤ bias² + z0²/(n − Tm) + failure·(upper − lower)²,    z0 = H(e^ε + 1)/(e^ε − 1).

    T = 0 is the one-stage estimator, which pays for half the width of the range; `one_stage_risk` is its bound. The choice of T, m, t and H
    uses no data.
    Cost: about 0.1 s to choose, 10 ns a record.
    Source: Steinberger (2019), Definition 1.9 and Beispiel 3.6; Cantelli's and Markov's inequality.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import TwoStageMean
    >>> mean = TwoStageMean(1.0, n=100_000, lower=-1000.0, upper=1000.0, kappa=2.0, C=1.0)
    >>> mean.tests > 5, round(mean.one_stage_risk / mean.risk_bound()) > 1000
    (True, True)
    >>> found = mean.privatize(np.random.default_rng(1).normal(300.0, 1.0, 100_000))
    >>> bool(abs(found.value - 300) < 0.2)
    True
    """

    epsilon: float
    n: int = field(kw_only=True)
    lower: float = field(kw_only=True)
    upper: float = field(kw_only=True)
    kappa: float = field(kw_only=True)
    C: float = field(kw_only=True)
    tests: int | None = field(default=None, kw_only=True)
    group: int | None = field(default=None, kw_only=True)
    _stages: _Stages = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "n", check_integer("n", self.n, low=1, high=MOST_REPORTS))
        for name in ("lower", "upper"):
            object.__setattr__(self, name, check_real(name, getattr(self, name), low=-LARGEST_BOUND, high=LARGEST_BOUND))
        if not self.lower < self.upper:
            raise ParameterError(f"lower must be less than upper, got lower {self.lower!r} and upper {self.upper!r}")
        object.__setattr__(self, "kappa", check_real("kappa", self.kappa, low=1.0, high=1024.0, include_low=False))
        object.__setattr__(self, "C", check_positive("C", self.C))
        stages = self._best() if self.tests is None and self.group is None else self._given()
        object.__setattr__(self, "_stages", stages)
        object.__setattr__(self, "tests", stages.tests)
        object.__setattr__(self, "group", stages.group)

    def _given(self) -> _Stages:
        tests = check_integer("tests", self.tests, low=0, high=MOST_TESTS)
        group = 0 if tests == 0 and self.group is None else check_integer("group", self.group, low=int(tests > 0), high=self.n)
        if tests and group % 2 == 0:
            raise ParameterError(f"group must be odd, so that there is a majority, got {group}")
        if tests * group >= self.n:
            raise ParameterError(f"tests·group must be below n = {self.n}, got {tests}·{group}")
        return self._with(tests, np.array([group]), self._wrong(np.array([group])))

    def _best(self) -> _Stages:
        """The stages with the smallest bound, among those that are tried; T = 0 is one of them."""
        sizes = np.unique(np.geomspace(1, self.n, GROUPS).astype(np.int64) // 2 * 2 + 1)
        wrong = self._wrong(sizes)
        best = self._with(0, np.array([0]), wrong[:1])
        for tests in range(1, MOST_TESTS + 1):
            fit = sizes * tests < self.n
            if not fit.any():
                break
            best = min(best, self._with(tests, sizes[fit], wrong[fit]), key=lambda stages: stages.risk)
        return best

    def _wrong(self, groups: npt.NDArray[np.int64]) -> Array:
        """How often the majority of a group errs at most, beyond the margin of each share in `TAILS`, shape (groups, tails)."""
        flip = 1 / (1 + math.exp(self.epsilon))
        shares = (flip + (1 - TAILS) * math.tanh(self.epsilon / 2)) * _DOWN
        return np.stack([below((size + 1) // 2, max(size, 1), shares) for size in groups.tolist()])

    def _margins(self) -> Array:
        """t with P(X ≤ θ − t) ≤ τ and P(X ≥ θ + t) ≤ τ, for τ in `TAILS`: by Markov's inequality, and by Cantelli's for κ ≥ 2."""
        norm = min(math.exp(math.log(self.C) / self.kappa), LARGEST_LEVEL)
        markov = norm * TAILS ** (-1 / self.kappa)
        cantelli = norm * np.sqrt((1 - TAILS) / TAILS)
        margins: Array = (markov if self.kappa < 2 else np.minimum(markov, cantelli)) * _UP
        return margins

    def _with(self, tests: int, groups: npt.NDArray[np.int64], wrong: Array) -> _Stages:
        """The best of these sizes of a group, of the margins and of the levels that are tried."""
        width, largest = (self.upper - self.lower) * _UP, max(abs(self.lower), abs(self.upper))
        # θ and every middle are between the bounds, so that no margin need be wider
        margins = np.minimum(self._margins(), width) if tests else np.zeros(1)
        failures = np.minimum(tests * wrong[:, : len(margins)] * _UP, 1.0)[:, :, None]
        # each middle is rounded to half a unit of its last digit, and the halves add up to one
        radii = (width / 2.0 ** (tests + 1) + margins + (2.0**-51 * largest if tests else 0.0)) * _UP
        norm = math.exp(math.log(self.C) / self.kappa)
        beyond = np.append(0.0, np.minimum(norm, LARGEST_LEVEL) * np.geomspace(2.0**-10, 2.0**30, LEVELS))
        levels = radii[:, None] + beyond
        # differences x − c are rounded, in numbers that are clipped to c ± H
        rounding = 2.0**-50 * (largest + levels)
        bias = largest_clipping_bias(beyond, self.kappa, self.C) + rounding
        left = (self.n - tests * groups).astype(np.float64)[:, None, None]
        risks = (np.minimum(bias, LARGEST_LEVEL) ** 2 + (levels * expansion(self.epsilon)) ** 2 / left + failures * width**2) * _UP
        risks = np.minimum(risks, width**2)  # both θ and the estimate are between the bounds
        row, tail, column = np.unravel_index(int(risks.argmin()), risks.shape)
        return _Stages(
            tests=tests,
            group=int(groups[row]) if tests else 0,
            margin=float(margins[tail]),
            radius=float(radii[tail]),
            failure=float(failures[row, tail, 0]),
            level=float(levels[tail, column]),
            bias=float(bias[tail, column]),
            risk=float(risks[row, tail, column]),
        )

    @property
    def radius(self) -> float:
        """r: the distance between θ and the middle of the range that is found."""
        return self._stages.radius

    @property
    def failure(self) -> float:
        """Bound of the probability that the distance is larger than `radius`."""
        return self._stages.failure

    @property
    def level(self) -> float:
        """H: numbers are clipped at the middle ± H."""
        return self._stages.level

    @property
    def bias(self) -> float:
        """What clipping changes at most, if the distance is at most `radius`."""
        return self._stages.bias

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each record: (ε, 0)."""
        return Privacy(self.epsilon)

    @cached_property
    def one_stage_risk(self) -> float:
        """The bound of the squared risk without a first stage."""
        return self._with(0, np.array([0]), np.zeros((1, 1))).risk

    def risk_bound(self) -> float:
        """Return the bound of the squared risk, for every distribution with the moment.

        Returns
        -------
        float
            bias² + z0²/(n − Tm) + failure·(upper − lower)², rounded up, and at most (upper − lower)².
        """
        return self._stages.risk

    @property
    def _used(self) -> int:
        """Reports of the first stage."""
        return self._stages.tests * self._stages.group

    def question(self, reports: Any) -> float | LinearEstimator:
        """Return what the next records are asked, after the reports so far.

        Parameters
        ----------
        reports : array_like of bool
            The reports so far, in order. Those of a group that is not complete change nothing.

        Returns
        -------
        float or LinearEstimator
            In the first stage a threshold: a record x reports `BinaryResponse(epsilon).privatize(x > threshold)`. In the second stage the
            estimator whose `privatize` makes the reports.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are more than n reports, or they are not bools.
        """
        bits = self._checked(reports)
        return self._middle(bits) if len(bits) < self._used else self._second(self._middle(bits))

    def _middle(self, bits: Bits) -> float:
        """The middle of the range that is left after the tests that are complete."""
        tests, m = self._stages.tests, self._stages.group
        low, high = self._range(bits, min(len(bits) // m, tests) if tests else 0)
        return low + (high - low) / 2

    def _range(self, bits: Bits, tests: int) -> tuple[float, float]:
        """The range that is left after some tests."""
        low, high, m = self.lower, self.upper, self._stages.group
        for j in range(tests):
            middle = low + (high - low) / 2
            above = 2 * int(bits[j * m : (j + 1) * m].sum()) > m
            low, high = (middle, high) if above else (low, middle)
        return low, high

    def _second(self, middle: float) -> LinearEstimator:
        return LinearEstimator(Shifted(middle), self.epsilon, bound=self.level, bias=self.bias, center=middle)

    def privatize(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> TwoStageEstimate:
        """Ask n records one after the other, as people who hold them would answer.

        Parameters
        ----------
        records : array_like of float, shape (n,)
            Records, without NaN. Their order decides which stage asks them; it must not depend on their values.
        rng : Stream, optional
            Source of randomness; None is the operating system's, through a secure generator.
        threads : int, optional
            Number of threads; None chooses it.

        Returns
        -------
        TwoStageEstimate
            The reports and the estimate.

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are not n records, or an argument does not fit.
        DataError
            If a record is NaN. Nothing was released.
        """
        values = check_array("records", records, REAL_DTYPES).astype(np.float64)
        if values.shape != (self.n,):
            raise ParameterError(f"records must be a vector of n = {self.n}, got shape {values.shape}")
        check_no_nan(values)
        stream = open_stream(rng, threads)
        bits = np.zeros(self.n, np.bool_)
        response, m, used = BinaryResponse(self.epsilon), self._stages.group, self._used
        for start in range(0, used, m or 1):
            part = slice(start, start + m)
            bits[part] = response.privatize(values[part] > self._middle(bits[:start]), rng=stream, threads=threads)
        second = self._second(self._middle(bits[:used]))
        bits[used:] = second.privatize(values[used:], rng=stream, threads=threads)
        return self.estimate(bits)

    def estimate(self, reports: Any) -> TwoStageEstimate:
        """Estimate from the reports alone, as their collector does.

        Parameters
        ----------
        reports : array_like of bool, shape (n,)
            All reports, in order.

        Returns
        -------
        TwoStageEstimate
            The estimate that `privatize` returned with these reports.

        Raises
        ------
        ParameterError, ParameterTypeError
            If they are not n bools.
        """
        bits = self._checked(reports)
        if len(bits) != self.n:
            raise ParameterError(f"reports must be a vector of n = {self.n}, got {len(bits)}")
        low, high = self._range(bits, self._stages.tests)
        second = self._second(low + (high - low) / 2)
        rest = second.estimate(bits[self._used :])
        value = min(max(float(rest.value), self.lower), self.upper)
        margin = self._stages.margin
        found = math.nextafter(low - margin, -math.inf), math.nextafter(high + margin, math.inf)
        return TwoStageEstimate(value, found, bits, self, rest)

    def _checked(self, reports: Any) -> Bits:
        bits = check_array("reports", reports, ("bool",))
        if bits.ndim != 1 or len(bits) > self.n:
            raise ParameterError(f"reports must be a vector of at most n = {self.n}, got shape {bits.shape}")
        return bits


@dataclass(frozen=True, eq=False)
class TwoStageEstimate(LocallyGuaranteed):
    """A mean that was estimated in two stages.

    Attributes
    ----------
    value : float
        The estimate, in [lower, upper].
    range : tuple of float
        The range that the first stage found. It holds θ, except with probability `failure`.
    reports : ndarray of bool, shape (n,)
        All reports, in order; the others are functions of them alone.
    estimator : TwoStageMean
        The estimator.
    second : local.Estimate
        What the second stage estimates.
    """

    value: float
    range: tuple[float, float]
    reports: npt.NDArray[np.bool_] = field(repr=False)
    estimator: TwoStageMean
    second: Any = field(repr=False)

    @property
    def n(self) -> int:
        """Number of reports."""
        return len(self.reports)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of each report: (ε, 0)."""
        return self.estimator.privacy

    def interval(self, confidence: float = 0.95) -> npt.NDArray[np.float64]:
        """Return an interval that covers θ, for every distribution with the moment.

        Parameters
        ----------
        confidence : float, default 0.95
            Probability of covering, in (0, 1 − failure).

        Returns
        -------
        ndarray of float64, shape (2,)
            The interval of the second stage at the confidence plus the failure of the first, widened by the bias and cut to
            [lower, upper].

        Raises
        ------
        ParameterError, ParameterTypeError
            If the first stage alone fails more often than the confidence allows.
        """
        confidence, failure = check_confidence(confidence), self.estimator.failure
        needed = math.nextafter(confidence + failure, math.inf) if failure > 0 else confidence
        if needed >= 1:
            raise ParameterError(
                f"confidence must be below 1 − {failure!r}, as the first stage may fail with that probability, got {confidence!r}"
            )
        ends = self.second.interval(needed)
        cut: npt.NDArray[np.float64] = np.clip(ends, self.estimator.lower, self.estimator.upper)
        return cut

    def _repr_html_(self) -> str:
        facts = [("mean", f"{self.value:.6g}")]
        if self.estimator.failure < 0.05:
            ends = self.interval()
            facts.append(("95 % interval", f"{ends[0]:.6g} to {ends[1]:.6g}"))
        facts += [
            ("range found", f"{self.range[0]:.6g} to {self.range[1]:.6g}"),
            ("reports of the first stage", f"{self.estimator.tests} × {self.estimator.group}"),
            ("reports", f"{self.n:,}"),
            ("root mean square error", f"≤ {math.sqrt(self.estimator.risk_bound()):.4g}"),
        ]
        return facts_table("Mean in two stages", facts)
