"""Messages say what to write to whoever takes one thing for another: a coverage for an error probability, per cent, or labels for codes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import noise
from dpcore._validation import check_beta
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.inference import AdaptiveQueries
from dpcore.local import BinaryChannel, KaryResponse
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, RunningTotals

MECHANISMS = [Laplace(0.5, 1.0), Gaussian(0.5, 1e-6, 1.0), DiscreteLaplace(0.5, 1), DiscreteGaussian(0.5, 1e-6, 1)]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda mechanism: type(mechanism).__name__)
def test_accuracy_takes_either_probability(mechanism):
    assert mechanism.accuracy(confidence=0.95, size=3) == mechanism.accuracy(1 - 0.95, size=3) > mechanism.accuracy(confidence=0.5)
    with pytest.raises(ParameterError, match="beta or confidence is required, not both"):
        mechanism.accuracy(0.05, confidence=0.95)
    with pytest.raises(ParameterError, match=r"beta or confidence is required: beta=0\.05"):
        mechanism.accuracy()
    with pytest.raises(ParameterError, match=r"confidence must be in \(0.0, 1.0\), got 95.0: write 0.95 for 95 %"):
        mechanism.accuracy(confidence=95)


def test_totals_and_adaptive_queries_take_either_probability():
    totals = RunningTotals(8, epsilon=1.0)
    assert totals.accuracy(confidence=0.75, step=5) == totals.accuracy(0.25, step=5)
    queries = AdaptiveQueries(np.zeros(100), 0.5, 1e-6, uses=5)
    assert queries.empirical_accuracy(confidence=0.75) == queries.empirical_accuracy(0.25)


@pytest.mark.parametrize(
    "call",
    [
        *(lambda mechanism=mechanism: mechanism.accuracy(0.95) for mechanism in MECHANISMS),
        lambda: RunningTotals(8, epsilon=1.0).accuracy(0.95, step=5),
        lambda: AdaptiveQueries(np.zeros(100), 0.5, 1e-6, uses=5).empirical_accuracy(0.95),
    ],
)
def test_a_coverage_given_as_beta_is_noticed(call):
    with pytest.warns(UserWarning, match=r"^beta is the probability of missing, got 0\.95: for 95 % write beta=0\.05$") as caught:
        call()
    assert caught[0].filename == __file__


@pytest.mark.parametrize("confidence", [0.5, 0.95, 1 - 2.0**-53, 0.1, 0.3, 1e-17, 1e-300])
def test_the_probability_of_missing_is_never_above_what_the_coverage_leaves(confidence):
    beta = check_beta(None, confidence)
    assert 0 < beta < 1
    assert 1 - beta >= confidence
    assert confidence < 0.5 or math.isclose(beta, 1 - confidence, rel_tol=0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: {"a": 1.0}, r"got dict: write list\(values\.values\(\)\)$"),
        ({"a": 1.0}.values, r"got dict_values: write list\(values\)$"),
        (lambda: map(float, "1"), r"got map: write list\(values\)$"),
    ],
)
def test_what_is_no_array_is_named(make, said):
    for call in (
        lambda: Laplace(1.0, 1.0).release(make()),
        lambda: DiscreteLaplace(1.0, 1).release(make()),
        lambda: noise.laplace(make(), 1),
    ):
        with pytest.raises(ParameterTypeError, match=said):
            call()


@pytest.mark.parametrize("records", [["north"], np.array(["north"]), np.array(["north"], object)])
@pytest.mark.parametrize("mechanism", [KaryResponse(1.0, k=3), BinaryChannel(1.0, [0.0, 1.0, 2.0])], ids=["kary", "channel"])
def test_labels_without_categories_lead_to_codes(mechanism, records):
    with pytest.raises(ParameterTypeError, match=r"codes 0 … k − 1 are expected: .*from_categories.*pandas\.Categorical") as caught:
        mechanism.privatize(records)
    assert "north" not in str(caught.value)


def test_missing_codes_are_named():
    with pytest.raises(DataError, match=r"the one at index \(2,\) is not; a missing value is none either \(its code in pandas is −1\)"):
        KaryResponse(1.0, k=3).privatize([0, 1, -1])
