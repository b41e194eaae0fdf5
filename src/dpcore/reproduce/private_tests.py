"""How often the private tests of Private inference (chapter 9), Section 9.3, reject, measured and computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from dpcore._dataclasses import dataclass
from dpcore.inference import identity_test, lipschitz_uniformity_test, uniformity_test
from dpcore.inference._lipschitz import Constants, States, steps
from dpcore.inference._sample_size import ALLOWED, least_allowed
from dpcore.inference._thresholds import thresholds
from dpcore.inference.distribution_tests import sample_size_needed, sample_size_order
from dpcore.reproduce.draws import normals, packed_signs
from dpcore.reproduce.estimates import Mean, log_slope
from dpcore.rng import Stream

DELTA = 1e-3
"""Total δ of all tests."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Case:
    """A test of uniformity: d signs of a record, the separation, and the total ε."""

    d: int
    alpha: float
    epsilon: float

    @property
    def needed(self) -> int:
        """Number of records at which both errors are proved to be at most 1/3."""
        return sample_size_needed(self.epsilon, DELTA, d=self.d, alpha=self.alpha)

    @property
    def order(self) -> float:
        """√d/α² + d^¼/(αε)."""
        return sample_size_order(self.epsilon, d=self.d, alpha=self.alpha)

    def by_noise(self, n: int, norm: float) -> float:
        """P(reject) where the statistic is its mean n(n − 1)‖ν‖² and only its noise decides."""
        gap = n * (n - 1) * (self.alpha**2 / 4 - norm**2)
        return laplace_tail(gap, thresholds(n, self.d, self.epsilon, DELTA).third_scale)

    @property
    def least(self) -> int:
        """Records at which noise alone makes the error under uniformity 1/3."""
        return least_allowed(lambda n: (self.by_noise(n, 0.0),))


@dataclass(frozen=True, slots=True)
class Share:
    """Number of runs that rejected, of all runs."""

    rejected: int
    runs: int

    @property
    def mean(self) -> Mean:
        """Share and standard error, with half a run added to either side, so that no standard error is 0."""
        share = (self.rejected + 0.5) / (self.runs + 1)
        return Mean(self.rejected / self.runs, math.sqrt(share * (1 - share) / self.runs))


def laplace_tail(gap: float, scale: float) -> float:
    """P(Lap(scale) > gap).

    Examples
    --------
    >>> laplace_tail(0.0, 2.0), laplace_tail(-1e9, 1.0)
    (0.5, 1.0)
    """
    half = 0.5 * math.exp(-abs(gap) / scale)
    return half if gap >= 0 else 1 - half


def share_of(outcome: Callable[[], bool], runs: int) -> Share:
    """Run a test several times."""
    return Share(sum(outcome() for _ in range(runs)), runs)


def uniformity(case: Case, n: int, norm: float, runs: int, stream: Stream) -> Share:
    """Test n records whose signs have means that are equal, with ‖ν‖₂ = norm."""

    def outcome() -> bool:
        records = packed_signs(n, case.d, norm / math.sqrt(case.d), stream)
        return uniformity_test(records, case.epsilon, DELTA, alpha=case.alpha, columns=case.d, rng=stream).reject

    return share_of(outcome, runs)


# The sample size


@dataclass(frozen=True, slots=True)
class Least:
    """Records at which the error under uniformity is 1/3, as measured."""

    case: Case
    found: Mean


def measured_least(case: Case, runs: int, stream: Stream) -> Least:
    """Find where the share of rejections of uniform records falls through 1/3: near there its logarithm is a line in ln n."""
    sizes = [max(2, round(case.least * factor)) for factor in (0.8, 1.0, 1.25)]
    shares = [uniformity(case, n, 0.0, runs, stream).mean for n in sizes]
    slope, _ = log_slope(sizes, [share.value for share in shares])
    middle = math.exp(float(np.mean(np.log(sizes))))
    level = math.exp(float(np.mean(np.log([share.value for share in shares]))))
    relative = math.sqrt(sum((share.stderr / share.value) ** 2 for share in shares)) / len(shares)
    value = middle * (ALLOWED / level) ** (1 / slope)
    return Least(case, Mean(value, value * relative / abs(slope)))


# Normal records


def normal_records(n: int, mean: Array, root: Array, stream: Stream) -> Array:
    """N(mean, root·root'), n records."""
    return np.asarray(normals((n, len(mean)), 0.0, stream) @ root.T + mean)


def identity(n: int, shift: Array, root: Array, epsilon: float, alpha: float, runs: int, stream: Stream) -> Share:
    """Test for mean 0 where the whitened records have mean `shift`; ‖shift‖ is their Mahalanobis distance from it."""
    cov = root @ root.T

    def outcome() -> bool:
        records = normal_records(n, root @ shift, root, stream)
        return identity_test(records, epsilon, DELTA, alpha=alpha, mean=np.zeros(len(shift)), cov=cov, rng=stream).reject

    return share_of(outcome, runs)


def sign_norm(shift: Array) -> float:
    """‖ν‖₂ of the signs of N(shift, I).

    Examples
    --------
    >>> import numpy as np
    >>> round(sign_norm(np.array([10.0, 0.0])), 6)
    1.0
    """
    return math.sqrt(math.fsum(math.erf(m / math.sqrt(2)) ** 2 for m in shift.tolist()))


def measured_sign_norm(shift: Array, n: int, stream: Stream) -> Mean:
    """‖ν‖₂ from the signs of n records: the square without the part that chance adds, and its standard error by that of the means."""
    signs = np.sign(normals((n, len(shift)), 0.0, stream) + shift)
    means = signs.mean(axis=0)
    variances = (1 - means**2) / (n - 1)
    norm = math.sqrt(max(float(np.sum(means**2 - variances)), 0.0))
    return Mean(norm, math.sqrt(float(np.sum(means**2 * variances))) / norm)


# The Lipschitz extension


def lipschitz(records: Callable[[Stream], Array], epsilon: float, alpha: float, constants: Constants, runs: int, stream: Stream) -> Share:
    """Test tiny data that are drawn for each run."""
    return share_of(lambda: lipschitz_uniformity_test(records(stream), epsilon, alpha=alpha, constants=constants, rng=stream).reject, runs)


def lipschitz_exactly(sets: Sequence[Sequence[int]], d: int, epsilon: float, alpha: float, constants: Constants) -> float:
    """P(reject), averaged over data sets that are given as codes of their records: each comparison has separate noise."""
    n = len(sets[0])
    states, comparisons, total = States(n, d), steps(n, d, epsilon, alpha, constants), 0.0
    for codes in sets:
        distances = states.distances(np.array(codes))
        total += 1 - math.prod(1 - laplace_tail(step.limit - states.extension(distances, step.width), step.scale) for step in comparisons)
    return total / len(sets)
