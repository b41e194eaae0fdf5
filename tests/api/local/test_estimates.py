"""What an estimate is: frozen, with an interval at any confidence, a table in a notebook, and nothing that others can change."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import numpy as np
import pytest

from dpcore import Privacy, local
from dpcore._html import MOST
from dpcore.errors import ParameterError, ParameterTypeError

KARY = local.KaryResponse(1.0, k=4)
ESTIMATES = [
    KARY.estimate(local.Aggregate(KARY, 1000, np.array([400, 300, 200, 100]))),
    (one_bit := local.BoundedMean(1.0, -1.0, 3.0)).estimate(local.Aggregate(one_bit, 1000, np.array([400]))),
    (laplace := local.LocalLaplace(1.0, 0.0, 10.0)).estimate(laplace.privatize(np.full(1000, 5.0))),
    local.BinaryResponse(2.0).estimate(np.arange(100) < 30),
]
each = pytest.mark.parametrize("found", ESTIMATES, ids=["kary", "one bit", "laplace", "binary"])


@each
def test_an_estimate_is_frozen_and_comes_back_from_a_pickle(found):
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        found.n = 3
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert np.array_equal(again.value, found.value)
        assert (again.n, again.privacy, again.categories) == (found.n, found.privacy, found.categories)
        for confidence in (0.5, 0.95, 0.999):
            assert np.array_equal(again.interval(confidence), found.interval(confidence))


@each
def test_the_interval_is_a_function_of_the_confidence(found):
    narrow, usual, wide = (found.interval(confidence) for confidence in (0.5, 0.95, 0.999))
    assert np.array_equal(found.interval(), usual)
    assert (np.diff(narrow) < np.diff(usual)).all()
    assert (np.diff(usual) < np.diff(wide)).all()
    assert usual.shape == (*np.shape(found.value), 2)
    for wrong, error in ((0.0, ParameterError), (1.0, ParameterError), (np.nan, ParameterError), ("0.9", ParameterTypeError)):
        with pytest.raises(error, match="confidence must be"):
            found.interval(wrong)


def test_an_estimate_tells_the_guarantee_of_a_report():
    assert ESTIMATES[0].privacy == Privacy(1.0)
    gaussian = local.LocalGaussian(1.0, 1e-6, 0.0, 1.0)
    assert gaussian.estimate(gaussian.privatize([0.5, 0.5])).privacy == Privacy(1.0, 1e-6)


def test_who_changes_counts_afterwards_does_not_change_the_estimate():
    counted = local.Aggregate(KARY, 1000, np.array([400, 300, 200, 100]))
    found = KARY.estimate(counted)
    before = found.interval()
    counted.counts[:] = 0
    assert np.array_equal(found.interval(), before)


def test_a_notebook_shows_a_row_for_each_category():
    page = ESTIMATES[0]._repr_html_()
    assert page.count("<tr>") == 5
    assert f"{ESTIMATES[0].value[2]:.6g}" in page
    assert "1,000 reports, each with ε = 1<" in page
    assert ESTIMATES[1]._repr_html_().count("<tr>") == 2
    many = local.KaryResponse(1.0, k=1000)
    page = many.estimate(np.arange(1000))._repr_html_()
    assert page.count("<tr>") == MOST + 2
    assert f"… {1000 - MOST} more" in page


@pytest.mark.parametrize("mechanism", [local.LocalDiscreteGaussian(20.0, 0.01, 0, 1), local.LocalDiscreteLaplace(20.0, 0, 1)])
@pytest.mark.parametrize("n", [1, 1000])
def test_intervals_of_integers_do_not_shrink_at_the_highest_confidence(mechanism, n):
    """With noise this narrow, 10^-9 and more of the samples are still off by one record in n."""
    found = mechanism.estimate(np.zeros(n, np.int64), target="sample")
    ends = [n * float(found.interval(1 - tail)[1]) for tail in (4e-12, 1e-12, 1e-13, 2.0**-52)]
    assert ends == sorted(ends)
    assert ends[0] >= 1
