"""Private tests of whether records are uniform signs, or normal with a given mean: Private inference (chapter 9), Section 9.3.

docs/exactness-tests.md proves the guarantees with the constants of this module.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from dpcore import _backend, noise
from dpcore._dataclasses import dataclass
from dpcore._html import facts_table, guarantee
from dpcore._validation import check_choice, check_integer, check_positive, check_real, check_threads
from dpcore.inference._parameters import check_records
from dpcore.inference._sample_size import least_sample_size, p_value_bound
from dpcore.inference._signs import SignRows, Sums, check_signs
from dpcore.inference._thresholds import Thresholds, check_budget, check_ranges, thresholds
from dpcore.inference._whitening import check_mean, signs_of_whitened, whitening_matrix
from dpcore.privacy import Guaranteed, Privacy
from dpcore.rng import Stream, resolve

if TYPE_CHECKING:
    from collections.abc import Callable

SMALLEST_ALPHA = 2.0**-40
_UNIFORM_ROWS = 1 << 12
"""Filtered rows that are replaced together."""


@dataclass(frozen=True, slots=True)
class TestOutcome(Guaranteed):
    """Result of a private test of a distribution.

    Attributes
    ----------
    reject : bool
        Whether the null hypothesis is rejected.
    statistic : float
        The noisy statistic, which is compared with n(n − 1)α²/4 (or with the limit of the step that rejected); private like `reject`. Its
        mean is n(n − 1)‖ν‖² if nothing was filtered. inf if an earlier step rejected.
    privacy : Privacy
        Guarantee of all attributes together, for data sets that differ by the value of one record.
    sample_size_needed : int
        Number of records from which on the test errs with probability at most 1/3 under either hypothesis. With `level`, the error is at
        most `level` under the null hypothesis for any number of records, and at most 1/3 under the alternative from this number on.
    p_value : float or None
        Bound of a p-value, computed from `statistic`: under the null hypothesis it is at most t with probability at most t, for every t,
        over records and noise together. It is at least the probability, up to δ, that one of the first two steps fails. None for a test
        without such a bound.
    """

    __test__ = False  # the name is no test class of pytest's

    reject: bool
    statistic: float
    privacy: Privacy
    sample_size_needed: int
    p_value: float | None = None

    def _repr_html_(self) -> str:
        facts = [
            ("reject", "yes" if self.reject else "no"),
            ("noisy statistic", f"{self.statistic:.6g}"),
            ("bound of the p-value", "none" if self.p_value is None else f"{self.p_value:.3g}"),
            ("records needed", f"{self.sample_size_needed:,}"),
            ("privacy", guarantee(self.privacy)),
        ]
        return facts_table("Private test", facts)


def uniformity_test(
    records: npt.ArrayLike,
    epsilon: float,
    delta: float,
    *,
    alpha: float,
    level: float | None = None,
    columns: int | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> TestOutcome:
    r"""Test privately whether records of signs are uniform on {±1}^d, against product laws whose mean ν has ‖ν‖₂ ≥ α.

    Parameters
    ----------
    records : array_like
        n ≥ 2 records of d signs: shape (n, d) with entries −1 and +1 (int8 … int64, float16 … float64) or bool (True is +1); or packed
        bits in uint8, shape (n, ⌈d/8⌉), least significant bit first, 1 for +1. A memory map is read in blocks, twice.
    epsilon : float
        Total privacy loss ε in [2^-60, 4]: each step has ε/4, and the proof needs that to be at most 1.
    delta : float
        Total failure mass δ in [2^-900, 1/2].
    alpha : float
        Separation in [2^-40, √d]. It does not enter the noise.
    level : float, optional
        Reject if and only if `p_value` is at most this, in (δ, 1): the size is then at most `level` for any number of records. None is
        the rule of Algorithm 9.3.3, z₃ > n(n − 1)α²/4, whose size is at most 1/3 from `sample_size_needed` records on.
    columns : int, optional
        d, for packed bits only; later bits are ignored.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    TestOutcome
        The decision; P(reject) ≤ 1/3 under uniformity and ≥ 2/3 at separation α from `sample_size_needed` records on.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type, or noise for it would not fit into integers.
    DataError
        If an entry is no sign; the message has its row and column.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: (ε, δ)-differential privacy of decision and statistic, for all data, proved with these constants in
    docs/exactness-tests.md. With e = ε/4, f = min(δ/5, 1/32) and T(X) = ‖Σ_j X^(j)‖² − nd, X the records:

    1. reject if max_i \|X̄_i\| + Lap(2/e) > √(2n ln(d/f)) + (2/e)·ln(1/f);
    2. X̃ = X̄ + N(0, σ²), σ = √(8d·ln(5/4f))/e, rounded to integers; reject if more than ln(1/f)/e records, counted with noise Lap(1/e),
       have \|⟨X^(j), X̃⟩\| beyond Δ_f + ρ, ρ = (4d/e)·√(ln(5/4f)·ln(n/f)); uniform records replace those that have;
    3. reject if T of the records as filtered, plus Lap((4Δ_f + 12ρ)/e), exceeds n(n − 1)α²/4.

    All sums and products are integers, so the sensitivities hold for the computed numbers.
    Cost: O(nd) in two passes. The running time shows whether steps 1 and 2 rejected, and so does `statistic`.

    References
    ----------
    Private inference (chapter 9), Algorithm 9.3.3 and Theorem 9.3.4, with T of the *filtered* records; Canonne et al. (2020).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.testing import KeyedRandom
    >>> signs = np.random.default_rng(1).integers(0, 2, (20_000, 16)).astype(bool)
    >>> uniformity_test(signs, 2.0, 1e-3, alpha=1.0, rng=KeyedRandom(bytes(32))).reject
    False
    >>> signs[:15_000, 3] = True
    >>> uniformity_test(signs, 2.0, 1e-3, alpha=1.0, rng=KeyedRandom(bytes(32))).reject
    True
    """
    budget = check_budget(epsilon, delta)
    rows = check_signs(records, columns)
    alpha = _check_alpha(alpha, math.sqrt(rows.d))
    check_threads(threads)
    rng = resolve(rng)
    return _outcome(lambda: rows, (rows.n, rows.d), budget, alpha, _check_level(level, budget), rng, threads)


def identity_test(
    records: npt.ArrayLike,
    epsilon: float,
    delta: float,
    *,
    alpha: float,
    mean: npt.ArrayLike,
    cov: npt.ArrayLike,
    level: float | None = None,
    rng: Stream | None = None,
    threads: int | None = None,
) -> TestOutcome:
    r"""Test privately whether records are N(mean, cov), against N(μ, cov) at Mahalanobis distance ≥ α.

    Parameters
    ----------
    records : array_like, shape (n, d)
        n ≥ 2 records of d real numbers; infinities are allowed.
    epsilon : float
        Total privacy loss ε in [2^-60, 4].
    delta : float
        Total failure mass δ in [2^-900, 1/2].
    alpha : float
        Separation √((μ − μ*)'Σ⁻¹(μ − μ*)) in [2^-39, 2^39]. It does not enter the noise.
    mean : array_like, shape (d,)
        Mean μ* of the null hypothesis, public.
    cov : array_like, shape (d, d)
        Covariance Σ of both hypotheses, public; symmetric and positive definite.
    level : float, optional
        Reject if and only if `p_value` is at most this, in (δ, 1); None is the rule of `uniformity_test`.
    rng : Stream, optional
        Source of randomness; None is the secure source.
    threads : int, optional
        Number of threads; None chooses.

    Returns
    -------
    TestOutcome
        The decision; `sample_size_needed` is that of the test of signs, at the separation α' below.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.
    DataError
        If a number is NaN; the message has its row and column.
    EntropyError
        If the operating system gives no randomness.

    Notes
    -----
    Guarantee: that of `uniformity_test`. Each record is whitened, y = L⁻¹(x − μ*) with LL' = Σ, and mapped to the signs of y. These are a
    function of that record alone, bit for bit, for any other records; a zero gets an independent fair random sign. So data sets that
    differ in one record also differ in one record as signs.

    The signs have mean ν_i = erf(m_i/√2), m = L⁻¹(μ − μ*), and ‖ν‖₂ ≥ 0.84·min(‖m‖₂/√2, 1): they are tested at α' = 0.84·min(α/√2, 1).
    Cost: O(nd²) for whitening, O(nd) if Σ is diagonal, and n·d/8 bytes for the signs.

    References
    ----------
    Private inference (chapter 9), Theorem 9.3.1, corrected: the proof has the wrong sign of erf, and min(·, d) instead of min(·, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.testing import KeyedRandom
    >>> x = np.random.default_rng(1).normal([3.0, -1.0], 2.0, (20_000, 2))
    >>> identity_test(x, 2.0, 1e-3, alpha=1.0, mean=[3.0, -1.0], cov=4 * np.eye(2), rng=KeyedRandom(bytes(32))).reject
    False
    >>> identity_test(x, 2.0, 1e-3, alpha=1.0, mean=[3.0, 1.0], cov=4 * np.eye(2), rng=KeyedRandom(bytes(32))).reject
    True
    """
    budget = check_budget(epsilon, delta)
    alpha = check_real("alpha", alpha, low=2 * SMALLEST_ALPHA, high=0.5 / SMALLEST_ALPHA)
    array = check_records("records", records, 2)
    n, d = array.shape
    check_integer("len(records)", n, low=2)
    check_threads(threads)
    rng = resolve(rng)
    centre, inverse = check_mean(mean, d), whitening_matrix(cov, d)

    def signs() -> SignRows:
        return SignRows(signs_of_whitened(array, centre, inverse, rng=rng), d, packed=True)

    return _outcome(signs, (n, d), budget, sign_separation(alpha), _check_level(level, budget), rng, threads)


def sign_separation(alpha: float) -> float:
    """Return a lower bound of ‖ν‖₂ for the signs of N(m, I) with ‖m‖₂ ≥ α: 0.84·min(α/√2, 1).

    Parameters
    ----------
    alpha : float
        ‖m‖₂, positive.

    Returns
    -------
    float
        In (0, 0.84].

    Raises
    ------
    ParameterError, ParameterTypeError
        If `alpha` is not positive and finite.

    Notes
    -----
    erf is concave on [0, ∞) and erf(1) ≥ 0.84, so that erf(t) ≥ 0.84·min(t, 1); and Σ min(m_i²/2, 1) ≥ min(‖m‖²/2, 1).
    Source: Private inference (chapter 9), proof of Theorem 9.3.1, corrected.
    Cost: a few operations.

    Examples
    --------
    >>> sign_separation(10.0)
    0.84
    """
    return 0.84 * min(check_positive("alpha", alpha) / math.sqrt(2.0), 1.0)


def sample_size_needed(epsilon: float, delta: float, *, d: int, alpha: float, level: float | None = None) -> int:
    r"""Return the number of records from which on `uniformity_test` errs with probability at most 1/3 on either side.

    Parameters
    ----------
    epsilon : float
        Total privacy loss in [2^-60, 4].
    delta : float
        Total failure mass in [2^-900, 1/2].
    d : int
        Number of signs of a record, in [1, 2^40].
    alpha : float
        Separation in [2^-40, √d].
    level : float, optional
        As in `uniformity_test`: its size is then at most this, and the other error at most 1/3 from this number of records on.

    Returns
    -------
    int
        The least n, as bisection finds it, at which bounds of both errors are at most 1/3.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Both bounds are derived from the algorithm's own constants in docs/exactness-tests.md: union bounds for the first two steps and the
    filter, Cantelli's inequality with the exact variance of T, and the exact tail of the noise. The noise dominates, so the true size at
    this n is only a little below 1/3. The order is `sample_size_order`, times logarithms.
    Cost: about 30 ms, then cached.

    Examples
    --------
    >>> near, far = (sample_size_needed(1.0, 1e-6, d=100, alpha=alpha) for alpha in (0.5, 1.0))
    >>> far < near < sample_size_needed(1.0, 1e-6, d=400, alpha=0.5)
    True
    """
    d = check_integer("d", d, low=1, high=2**40)
    epsilon, delta = check_budget(epsilon, delta)
    return least_sample_size(d, _check_alpha(alpha, math.sqrt(d)), epsilon, delta, _check_level(level, (epsilon, delta)))


def sample_size_order(epsilon: float, *, d: int, alpha: float, method: Literal["efficient", "optimal"] = "efficient") -> float:
    """Return an order of Private inference (chapter 9) of the number of records, without its logarithms and constant.

    Parameters
    ----------
    epsilon : float
        Privacy loss, in [2^-60, 2^60].
    d : int
        Number of signs of a record, in [1, 2^40].
    alpha : float
        Separation in [2^-40, √d].
    method : {"efficient", "optimal"}, default "efficient"
        √d/α² + d^¼/(αε) of Theorem 9.3.4, or √d/α² + d^⅓/(α^(4/3)ε^⅔) + 1/(αε) of Theorems 9.3.2 and 9.3.3.

    Returns
    -------
    float
        The sum.

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is out of range or of the wrong type.

    Notes
    -----
    Cost: a few operations. `sample_size_lower_bound` has constants, and is proved.

    Examples
    --------
    >>> sample_size_order(1.0, d=16, alpha=0.5), round(sample_size_order(1.0, d=27, alpha=1.0, method="optimal"), 3)
    (20.0, 9.196)
    """
    d = check_integer("d", d, low=1, high=2**40)
    alpha = _check_alpha(alpha, math.sqrt(d))
    epsilon = check_real("epsilon", epsilon, low=2.0**-60, high=2.0**60)
    root = math.sqrt(d) / alpha**2
    if check_choice("method", method, ("efficient", "optimal")) == "efficient":
        return root + math.sqrt(math.sqrt(d)) / (alpha * epsilon)
    return root + math.pow(root / epsilon, 2 / 3) + 1 / (alpha * epsilon)


def _check_alpha(alpha: object, largest: float) -> float:
    return check_real("alpha", alpha, low=SMALLEST_ALPHA, high=largest)


def _check_level(level: object, budget: tuple[float, float]) -> float | None:
    """Return a level above δ, which bounds the probability that the first steps fail."""
    return None if level is None else check_real("level", level, low=budget[1], high=1.0, include_low=False, include_high=False)


def _outcome(
    signs: Callable[[], SignRows],
    shape: tuple[int, int],
    budget: tuple[float, float],
    alpha: float,
    level: float | None,
    rng: Stream | None,
    threads: int | None,
) -> TestOutcome:
    """Check what is public about the records, read them, and run the test."""
    n, d = shape
    limits = thresholds(n, d, *budget)
    check_ranges(n, d, limits)
    needed = least_sample_size(d, alpha, *budget, level)
    statistic = _noisy_statistic(signs(), limits, rng, threads)
    p_value = p_value_bound(float(statistic), n, d, limits)
    exceeds = math.isinf(statistic) or statistic > Fraction(n * (n - 1), 4) * Fraction(alpha) ** 2
    return TestOutcome(exceeds if level is None else p_value <= level, float(statistic), Privacy(*budget), needed, p_value)


def _noisy_statistic(rows: SignRows, limits: Thresholds, rng: Stream | None, threads: int | None) -> float:
    """z₃ as an exact integer, or inf if z₁ or z₂ exceeds its limit. Line numbers refer to Algorithm 9.3.3."""
    sums = rows.sums(threads)  # line 1
    if noise.laplace(int(np.abs(sums).max()), limits.first_scale, rng=rng) > limits.first:  # 2, 3
        return math.inf
    far, removed = rows.beyond(noisy_sums(sums, rows.n, limits, rng, threads), limits.filter, threads)  # 4, 5
    if noise.laplace(far, limits.second_scale, rng=rng) > limits.second:  # 6, 7
        return math.inf
    filtered = sums - removed + uniform_sums(far, rows.d, rng, threads)  # 8-12
    statistic: int = squared_length(filtered, rows.n) - rows.n * rows.d
    rounded = statistic // limits.grid * limits.grid
    added = int(noise.laplace(0.0, limits.third_scale, grid=float(limits.grid), rng=rng))
    return rounded + added  # 13


def noisy_sums(sums: Sums, n: int, limits: Thresholds, rng: Stream | None, threads: int | None) -> Sums:
    """X̃ in integers, no larger than `check_ranges` allows for."""
    largest = float(math.ceil(n + 64 * limits.sigma))
    noisy = noise.gaussian(sums, limits.sigma, grid=1.0, rng=rng, threads=threads)
    return np.clip(noisy, -largest, largest).astype(np.int64)


def uniform_sums(count: int, d: int, rng: Stream | None, threads: int | None) -> Sums:
    """Sum of `count` records that are uniform on {±1}^d."""
    ones = np.zeros(d, np.int64)
    stream, width = resolve(rng), (d + 63) // 64
    for start in range(0, count, _UNIFORM_ROWS):
        rows = min(_UNIFORM_ROWS, count - start)
        words = _backend.uniform_words(stream.position(), rows * width)
        ones += _backend.column_counts(words.view(np.uint8).reshape(rows, 8 * width), d, threads=threads)
    return 2 * ones - count


def squared_length(sums: Sums, n: int) -> int:
    """‖X̄‖² of sums of at most n signs, as a Python integer."""
    if n * n * len(sums) < 2**63:
        return int(np.dot(sums, sums))
    return sum(s * s for s in sums.tolist())
