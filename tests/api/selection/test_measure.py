"""The exponential mechanism with a base measure, as its users meet it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore import selection
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.kernels import KEY

SCORES = np.array([3.0, 1.0, 4.0, 1.0, 5.0])
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 0.25])


def drawn(scores: Any = SCORES, measure: Any = WEIGHTS, **options: Any) -> Any:
    return selection.exponential_mechanism(scores, 1.0, 1.0, measure=measure, **options)


def test_one_draw_is_an_int_and_several_are_an_array():
    assert type(drawn()) is int
    found = drawn(draws=7)
    assert found.dtype == np.int64
    assert found.shape == (7,)
    assert drawn(labels=list("abcde")) in "abcde"
    assert len(drawn(draws=2, labels=list("abcde"))) == 2


def test_an_index_of_weight_zero_is_never_drawn():
    assert set(drawn(draws=2_000).tolist()) == {0, 1, 2, 4}
    assert drawn(np.array([1e300, 0.0]), [0, 1]) == 1
    assert drawn([5], [1e-320]) == 0


def test_a_key_repeats_a_call_and_draws_differ():
    rng = KeyedRandom(KEY).at(3)
    many = [drawn(np.zeros(1000), np.ones(1000), rng=rng) for _ in range(2)]
    assert many[0] == many[1]
    assert len(set(drawn(np.zeros(1000), np.ones(1000), rng=rng, draws=20).tolist())) > 10


def test_dtypes_and_layouts_of_weights_do_not_matter():
    expected = drawn(draws=50, measure=np.array([4.0, 2.0, 8.0, 0.0, 1.0]), rng=KeyedRandom(KEY)).tolist()
    for weights in ([4, 2, 8, 0, 1], np.array([4, 2, 8, 0, 1], np.uint8), np.array([4, 2, 8, 0, 1], np.float32)):
        assert drawn(draws=50, measure=weights, rng=KeyedRandom(KEY)).tolist() == expected
    spread = np.zeros((5, 2))
    spread[:, 0] = [4, 2, 8, 0, 1]
    assert drawn(draws=50, measure=spread[:, 0], rng=KeyedRandom(KEY)).tolist() == expected


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ([1.0, 2.0], "one weight for each of the 5 scores"),
        (np.ones((5, 1)), "one weight for each of the 5 scores"),
        ([1.0, -0.5, 1.0, 1.0, 1.0], "the one at index 1 is not"),
        ([1.0, 1.0, np.nan, 1.0, 1.0], "the one at index 2 is not"),
        ([np.inf, 1.0, 1.0, 1.0, 1.0], "the one at index 0 is not"),
        (np.zeros(5), "a positive weight"),
    ],
)
def test_wrong_weights_are_refused(measure, message):
    with pytest.raises(ParameterError, match=message):
        drawn(measure=measure)


@pytest.mark.parametrize("measure", ["abcde", [1, 2, 3, 4, None], [True] * 5, [1j] * 5, np.ma.array(np.ones(5), mask=False)], ids=str)
def test_weights_of_wrong_types_are_refused(measure):
    with pytest.raises(ParameterTypeError, match="measure"):
        drawn(measure=measure)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_must_be_finite(bad):
    with pytest.raises(DataError, match="scores must be finite; the one at index 2 is not"):
        drawn([0.0, 1.0, bad, 0.0, 0.0])
