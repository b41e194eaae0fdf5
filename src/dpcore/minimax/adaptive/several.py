"""Several functionals under one ε: Steinberger (2019), Aufgabe 3.1."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._html import columns_table
from dpcore._spread import check_confidence
from dpcore._validation import INTEGER_DTYPES, check_array, check_choice, check_integer, check_positive
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.local import Aggregate, VectorMean
from dpcore.local._mechanism import open_stream
from dpcore.local._one_bit import expansion
from dpcore.local._parameters import EPSILON_LOW, check_epsilon
from dpcore.minimax._binomial import MOST_REPORTS
from dpcore.minimax.linear.estimator import LinearEstimator
from dpcore.privacy import LocallyGuaranteed, Privacy

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.rng import Stream

Split = Literal["records", "epsilon", "vector"]
SPLITS: tuple[Split, ...] = ("records", "epsilon", "vector")
MOST_FUNCTIONALS = 2**10
BLOCK = 2**18
"""Numbers of several functionals that are in memory at once."""


@dataclass(frozen=True)
class SeveralFunctionals(LocallyGuaranteed):
    r"""Estimate k functionals of the records from reports that are ε-private together.

    Parameters
    ----------
    estimators : sequence of LinearEstimator
        k ≥ 1 estimators, at most 1,024. Their own ε is not used.
    epsilon : float
        Privacy loss ε of all that one record reports, in [2^−20, 700].
    n : int
        Number of records, in [k, 2^40].
    split : {"records", "epsilon", "vector"}, optional
        "records": each record reports about one functional with ε. "epsilon": each reports about all of them, with ε_j each. "vector": each
        makes one report about all, a sign of each, as `local.VectorMean` with method "hypercube" does. By default the one with the smallest
        sum of variances in units of bound²/n; "vector" only without weights.
    weights : sequence of float, optional
        Shares of the records, or of ε, positive; they are divided by their sum. By default all equal.

    Attributes
    ----------
    parts : tuple of LinearEstimator
        The estimators with the ε_j that they have here.
    sizes : tuple of int
        Reports about each functional.
    vector : local.VectorMean or None
        The mechanism of "vector".

    Raises
    ------
    ParameterError, ParameterTypeError
        If a parameter is outside its range or of the wrong type.

    Notes
    -----
    Guarantee: what a record reports is ε-DP. With "epsilon" it makes k reports, independent given the record, of privacy losses ε_j. Their
    joint probabilities multiply, and so do the ratios: Σ ε_j ≤ ε is the condition, as the exercise asks, and the ε_j are rounded down so
    that their exact sum is at most ε. A Bonferroni correction is the same calculation for tests: levels γ_j with Σ γ_j ≤ γ. Joint intervals
    use it.

    With equal weights and t(ε) = (e^ε − 1)/(e^ε + 1), the variance of functional j is at most k·bound_j²/(n·t(ε)²) for "records" and
    bound_j²/(n·t(ε/k)²) for "epsilon". As t(ε/k) is nearly t(ε)/k for small ε, the second is k times the first there; for large ε it is a
    k-th of it. "vector" has z0²·bound_j²/n with the z0 of `VectorMean`, which is smaller than both from about ε = 2 on.
    Cost: 5 ns a report.
    Source: Steinberger (2019), Aufgabe 3.1; Duchi, Jordan & Wainwright (2018), for "vector".

    Examples
    --------
    >>> import numpy as np
    >>> from dpcore.minimax import LinearEstimator, SeveralFunctionals
    >>> moments = [LinearEstimator(lambda x, j=j: x**j, 1.0, bound=1.0, bias=0.0) for j in (1, 2, 3)]
    >>> several = SeveralFunctionals(moments, 1.0, n=300_000)
    >>> several.split, SeveralFunctionals(moments, 4.0, n=300_000).split
    ('records', 'vector')
    >>> found = several.estimate(several.privatize(np.random.default_rng(1).uniform(-1, 1, 300_000)))
    >>> bool((np.abs(found.value - [0, 1 / 3, 0]) < 0.05).all()), found.interval().shape
    (True, (3, 2))
    """

    estimators: Sequence[LinearEstimator]
    epsilon: float
    n: int = field(kw_only=True)
    split: Split | None = field(default=None, kw_only=True)
    weights: Sequence[float] | None = field(default=None, kw_only=True)
    parts: tuple[LinearEstimator, ...] = field(init=False, repr=False, compare=False)
    sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    vector: VectorMean | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given: object = self.estimators
        if not isinstance(given, Sequence) or not all(isinstance(each, LinearEstimator) for each in given):
            raise ParameterTypeError(f"estimators must be a sequence of LinearEstimator, got {type(given).__name__}")
        count = len(given)
        if not 1 <= count <= MOST_FUNCTIONALS:
            raise ParameterError(f"estimators must be between 1 and {MOST_FUNCTIONALS:,}, got {count}")
        epsilon = check_epsilon(self.epsilon)
        n = check_integer("n", self.n, low=count, high=MOST_REPORTS)
        shares = _shares(self.weights, count)
        split = _best_split(epsilon, shares, self.weights is None) if self.split is None else check_choice("split", self.split, SPLITS)
        if split == "vector" and self.weights is not None:
            raise ParameterError('weights must be None for split="vector", whose report is about all functionals alike')
        epsilons = _epsilons(epsilon, shares) if split == "epsilon" else [epsilon] * count
        parts = tuple(replace(each, epsilon=part) for each, part in zip(given, epsilons, strict=True))
        bounds = tuple(part.channel.norm for part in parts)
        settled = {
            "estimators": tuple(given),
            "epsilon": epsilon,
            "n": n,
            "split": split,
            "weights": None if self.weights is None else tuple(float(weight) for weight in self.weights),
            "parts": parts,
            "sizes": _sizes(n, shares) if split == "records" else (n,) * count,
            "vector": _signs(epsilon, bounds) if split == "vector" else None,
        }
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @property
    def privacy(self) -> Privacy:
        """Guarantee of all that one record reports: (ε, 0)."""
        return Privacy(self.epsilon)

    @property
    def epsilons(self) -> tuple[float, ...]:
        """ε_j of each report; with "epsilon" their exact sum is at most ε, and with "vector" all are in one report."""
        return tuple(part.epsilon for part in self.parts)

    def risk_bound(self) -> npt.NDArray[np.float64]:
        """Bound the squared risk of each functional.

        Returns
        -------
        ndarray of float64, shape (k,)
            bias² + z0²/n_j, as in `LinearEstimator.risk_bound`; with "vector" the z0 of `VectorMean` times the bound.

        Raises
        ------
        ParameterError
            If the bias of an estimator is not known.
        """
        found = np.array([part.risk_bound(n=size) for part, size in zip(self.parts, self.sizes, strict=True)])
        if self.vector is None:
            return found
        biases = np.array([float(part.bias or 0.0) for part in self.parts])
        norms = np.array([part.channel.norm for part in self.parts])
        return biases**2 + (norms * self.vector.z0) ** 2 / self.n

    def privatize(self, records: Any, *, rng: Stream | None = None, threads: int | None = None) -> tuple[npt.NDArray[Any], ...]:
        """Make the reports of n records.

        Parameters
        ----------
        records : array_like, shape (n,) or (n, d)
            Records as the estimators take them. For "records" their order decides which functional asks them; it must not depend on values.
        rng : Stream, optional
            None is the secure source.
        threads : int, optional
            Number of threads.

        Returns
        -------
        tuple of k ndarrays of bool, or of one of uint8
            The reports about each functional; with "vector" those of `VectorMean`, shape (n, ⌈k/8⌉).

        Raises
        ------
        ParameterError, ParameterTypeError
            If there are not n records, or they do not suit an estimator.
        DataError
            As in `LinearEstimator.privatize`. Reports of functionals before are lost, and count as made.
        """
        values = np.asarray(records)
        if values.ndim < 1 or len(values) != self.n:
            raise ParameterError(f"records must be n = {self.n}, one along the first axis each, got shape {values.shape}")
        stream = open_stream(rng, threads)
        if self.vector is not None:
            rows = max(1, BLOCK // len(self.parts))
            starts = range(0, self.n, rows)
            made = [self.vector.privatize(self._numbers(values, start, rows), rng=stream, threads=threads) for start in starts]
            return (np.concatenate(made),)
        cuts = np.cumsum(self.sizes)[:-1]
        groups = np.split(values, cuts) if self.split == "records" else [values] * len(self.parts)
        return tuple(part.privatize(group, rng=stream, threads=threads) for part, group in zip(self.parts, groups, strict=True))

    def _numbers(self, records: npt.NDArray[Any], start: int, rows: int) -> npt.NDArray[np.float64]:
        """ℓ_j of some records from `start` on, shape (records, k)."""
        return np.stack([_evaluated(part, records[start : start + rows], start) for part in self.parts], axis=-1)

    def estimate(self, reports: Any) -> SeveralEstimates:
        """Estimate all functionals.

        Parameters
        ----------
        reports : sequence of k, or of one
            What `privatize` made, or Aggregates of it by the channels of `parts`, or by `vector`.

        Returns
        -------
        SeveralEstimates
            Values, standard errors and intervals.

        Raises
        ------
        ParameterError, ParameterTypeError
            If they are not k sets of reports of the right sizes.
        """
        sizes = self.sizes if self.vector is None else (self.n,)
        if not isinstance(reports, list | tuple) or len(reports) != len(sizes):
            raise ParameterError(f"reports must be a list or a tuple of {len(sizes)}")
        for place, (size, given) in enumerate(zip(sizes, reports, strict=True)):
            # a report of "vector" is a row of bytes, another one a bool
            made = given.n if isinstance(given, Aggregate) else (np.size(given) if self.vector is None else len(np.atleast_1d(given)))
            if made != size:
                raise ParameterError(f"reports[{place}] must be {size} reports, got {made}")
        if self.vector is None:
            found = [part.estimate(given) for part, given in zip(self.parts, reports, strict=True)]
            values, errors = (np.array([float(getattr(each, name)) for each in found]) for name in ("value", "stderr"))
            return SeveralEstimates(
                values, errors, self.privacy, lambda confidence: np.array([each.interval(confidence) for each in found])
            )
        signs = self.vector.estimate(reports[0])
        centers = np.array([part.center for part in self.parts])
        margins = np.array([part.bias or 0.0 for part in self.parts])[:, None] * np.array([-1.0, 1.0])
        moved = centers[:, None] + margins
        return SeveralEstimates(
            signs.value + centers, np.array(signs.stderr), self.privacy, lambda confidence: signs.interval(confidence) + moved
        )


@dataclass(frozen=True, eq=False)
class SeveralEstimates(LocallyGuaranteed):
    """Estimates of several functionals.

    Attributes
    ----------
    value : ndarray of float64, shape (k,)
        The estimates.
    stderr : ndarray of float64, shape (k,)
        Their standard errors, without biases.
    privacy : Privacy
        Guarantee of all that one record reports.
    ends : callable
        Gives the intervals for a confidence; `interval` calls it.
    """

    value: npt.NDArray[np.float64]
    stderr: npt.NDArray[np.float64]
    privacy: Privacy
    ends: Callable[[float], npt.NDArray[np.float64]] = field(repr=False)

    def interval(self, confidence: float = 0.95, *, joint: bool = False) -> npt.NDArray[np.float64]:
        """Return an interval for each functional.

        Parameters
        ----------
        confidence : float, default 0.95
            Coverage, in (0, 1).
        joint : bool, default False
            Whether all intervals hold at once with that probability: each then has the confidence 1 − (1 − confidence)/k.

        Returns
        -------
        ndarray of float64, shape (k, 2)
            Lower and upper ends.

        Raises
        ------
        ParameterError, ParameterTypeError
            If `confidence` is not in (0, 1), or what is left of 1 − confidence for each of several joint intervals is below 2^−53.
        """
        confidence = check_confidence(confidence)
        if joint and len(self.value) > 1:
            wanted = 1 - (1 - Fraction(confidence)) / len(self.value)
            each = float(wanted)
            each = each if Fraction(each) >= wanted else math.nextafter(each, 1.0)
            if each >= 1:
                raise ParameterError(f"confidence must be lower for {len(self.value)} joint intervals, got {confidence!r}")
            return self.ends(each)
        return self.ends(confidence)

    def _repr_html_(self) -> str:
        ends = self.interval()
        columns: dict[str, list[Any]] = {
            "functional": list(range(len(self.value))),
            "estimate": self.value.tolist(),
            "standard error": self.stderr.tolist(),
            "from": ends[:, 0].tolist(),
            "to": ends[:, 1].tolist(),
        }
        return columns_table(f"{len(self.value)} functionals with ε = {self.privacy.epsilon:.6g} for each record", columns)


def _best_split(epsilon: float, shares: list[Fraction], alike: bool) -> Split:
    """The split with the smallest sum of variances in units of bound²/n."""
    sums: dict[Split, float] = {"records": sum(expansion(epsilon) ** 2 / float(share) for share in shares)}
    if epsilon * float(min(shares)) >= EPSILON_LOW:
        sums["epsilon"] = sum(expansion(epsilon * float(share)) ** 2 for share in shares)
    if alike and len(shares) > 1:
        sums["vector"] = len(shares) * _signs(epsilon, (1.0,) * len(shares)).z0 ** 2
    return min(sums, key=lambda split: sums[split])


def _signs(epsilon: float, bounds: tuple[float, ...]) -> VectorMean:
    return VectorMean(epsilon, tuple(-bound for bound in bounds), bounds, d=len(bounds), method="hypercube")


def _evaluated(part: LinearEstimator, records: npt.NDArray[Any], start: int) -> npt.NDArray[np.float64]:
    """ℓ at some records, the first of which has the index `start`; the mechanism clamps it."""
    ell: Any = part.ell
    if isinstance(ell, tuple):
        codes = check_array("records", records, INTEGER_DTYPES)
        outside = (codes < 0) | (codes >= len(ell))
        if outside.any():
            raise DataError(f"records must hold codes in [0, {len(ell) - 1}]; the one at index {start + int(outside.argmax())} is not")
        values: npt.NDArray[np.float64] = np.array(ell, np.float64)[codes]
        return values
    found = np.asarray(ell(records), np.float64)
    if found.shape != records.shape[:1]:
        raise ParameterError(f"ell must return one number for each of {len(records)} records, got shape {found.shape}")
    absent = np.isnan(found)
    if absent.any():
        raise DataError(f"ell must not return NaN, as it does for the record at index {start + int(absent.argmax())}")
    return found


def _shares(given: Any, count: int) -> list[Fraction]:
    """Shares that sum to 1 exactly."""
    if given is None:
        return [Fraction(1, count)] * count
    if not isinstance(given, Sequence | np.ndarray) or len(given) != count:
        raise ParameterError(f"weights must be {count} positive numbers, one for each estimator")
    weights = [Fraction(check_positive(f"weights[{place}]", weight)) for place, weight in enumerate(given)]
    return [weight / sum(weights) for weight in weights]


def _sizes(n: int, shares: list[Fraction]) -> tuple[int, ...]:
    """Whole numbers of records in these shares, at least 1 each, that sum to n."""
    ends, total = [0], Fraction(0)
    spare = n - len(shares)
    for share in shares:
        total += share
        ends.append(int(spare * total))
    return tuple(1 + later - earlier for earlier, later in pairwise(ends))


def _epsilons(epsilon: float, shares: list[Fraction]) -> list[float]:
    """Shares of ε, each rounded down, so that their exact sum is at most ε."""
    parts = []
    for place, share in enumerate(shares):
        exact = Fraction(epsilon) * share
        part = float(exact)
        if Fraction(part) > exact:
            part = math.nextafter(part, 0.0)
        if part < EPSILON_LOW:
            raise ParameterError(f"epsilon must leave at least 2**-20 for each functional, got {part!r} for number {place}")
        parts.append(part)
    return parts
