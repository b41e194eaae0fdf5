"""Google's library through python-dp, as PipelineDP uses it: its laws beside the exact ones, and the benchmarks' sides that it has."""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("pydp", reason="make test-interop PEER=pipelinedp")

from pydp.algorithms import partition_selection
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism
from scipy import stats

from dpcore import noise, selection
from dpcore.bench._peers.noise import noise_peers
from support import laws

DRAWS = 60_000
SCALE = 3.0
EDGES = np.concatenate([[-np.inf], np.linspace(-6, 6, 97), [np.inf]])


def fit(values: list[float], kind: str, scale: float) -> float:
    """p-value of the χ² test of real noise against its exact law."""
    counts = np.histogram(np.array(values) / scale, np.concatenate([[-1e300], EDGES[1:-1], [1e300]]))[0]
    return laws.p_value(counts, laws.interval_masses(EDGES, kind))


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_real_noise_has_the_law_of_ours(kind):
    made = LaplaceMechanism(epsilon=1 / SCALE) if kind == "laplace" else GaussianMechanism.create_from_standard_deviation(SCALE)
    theirs = [made.add_noise(0.0) for _ in range(DRAWS)]
    ours = getattr(noise, kind)(np.zeros(DRAWS), SCALE)
    for values in (theirs, ours):
        assert fit(values, kind, SCALE) > laws.ERROR_RATE
        assert fit(values, kind, 0.95 * SCALE) < laws.ERROR_RATE


def rounded(n: np.ndarray, scale: float) -> np.ndarray:
    """Probabilities of Laplace noise that is rounded to integers."""
    law = stats.laplace(scale=scale)
    return law.cdf(n + 0.5) - law.cdf(n - 0.5)


def integers_law(n: np.ndarray, scale: float) -> np.ndarray:
    """Probabilities of discrete Laplace noise."""
    return np.tanh(0.5 / scale) * np.exp(-np.abs(n) / scale)


def test_noise_of_integers_is_rounded_and_ours_is_discrete():
    """Both are private. At a scale of 1/2 the laws differ plainly, and the rounded one has more variance."""
    scale, n = 0.5, np.arange(-4, 5)
    made = LaplaceMechanism(epsilon=1 / scale)
    theirs, ours = [made.add_noise(0) for _ in range(DRAWS)], noise.discrete_laplace(np.zeros(DRAWS, np.int64), scale)
    found = {}
    for who, values in (("theirs", theirs), ("ours", ours)):
        counts = np.array([np.sum(np.clip(values, -4, 4) == each) for each in n])
        for law in (rounded, integers_law):
            masses = law(n, scale)
            masses[[0, -1]] += (1 - masses.sum()) / 2
            found[who, law.__name__] = stats.chisquare(counts, DRAWS * masses).pvalue > laws.ERROR_RATE
    assert found == {
        ("theirs", "rounded"): True, ("theirs", "integers_law"): False,
        ("ours", "rounded"): False, ("ours", "integers_law"): True,
    }  # fmt: skip


@pytest.mark.parametrize("touched", [1, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.3, 1e-8)])
def test_partitions_are_kept_with_the_same_probability(epsilon, delta, touched):
    theirs = partition_selection.create_truncated_geometric_partition_strategy(epsilon, delta, touched)
    for n in range(1, 200):
        ours = selection.partition_probability(n, epsilon, delta, max_partitions=touched, method="truncated_geometric")
        assert ours == pytest.approx(theirs.probability_of_keep(n), rel=delta + 1e-9)


@pytest.mark.parametrize("case", ["laplace", "gaussian", "discrete_laplace", "discrete_gaussian"])
def test_the_benchmarks_compare_with_noise_of_the_same_size(case):
    (side,) = (side for side in noise_peers(case, SCALE) if side.package == "pydp")
    dtype = np.int64 if case.startswith("discrete") else np.float64
    work = side.prepare((np.zeros(5000, dtype), np.zeros(5000, dtype)))
    found = np.array([work() for _ in range(20)])
    assert found.shape == (20, side.size)
    deviation = SCALE * (math.sqrt(2) if "laplace" in case else 1)
    assert np.std(found) == pytest.approx(deviation, rel=0.05)
    assert np.issubdtype(found.dtype, np.integer) == case.startswith("discrete")
