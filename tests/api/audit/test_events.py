"""What an audit looks at: cells of outputs, unions of cells, low bits, and their names in words."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpcore import noise
from dpcore.audit import audit
from dpcore.audit._events import Feature, Partition, best_candidate, losses
from dpcore.audit._low_bits import reachable, representable, trailing_zeros
from dpcore.audit._runs import codes_of_rows
from dpcore.audit._words import Piece, code_words, interval_words, sum_words, zeros_words
from dpcore.audit.lower_bound import loss_bound
from dpcore.testing import KeyedRandom
from support.kernels import KEY

# Cells


@pytest.mark.parametrize("edges", [[1.0, 2.0, np.inf], [-3, 0, 7], [-(2**62), 5, 2**62]])
def test_cells_are_what_lies_between_edges_and_the_edges(edges):
    partition = Partition(np.array(edges))
    values = np.array([*edges, edges[0] - 1, edges[1] + 1 if edges[1] != 1 else 1.5, 1, -1], np.array(edges).dtype)
    for value, code in zip(values.tolist(), partition.codes(values).tolist(), strict=True):
        expected = sum(2 if value > edge else 1 if value == edge else 0 for edge in edges)
        assert code == expected


def test_nan_has_a_cell_of_its_own():
    partition = Partition.of(np.array([0.0, 1.0, np.nan]))
    codes = partition.codes(np.array([np.nan, np.inf, 1.0, -np.inf, 7.0]))
    assert len(set(codes.tolist())) == 5

    def rare(x, size, rng):
        return np.where(noise.laplace(np.zeros(size), 1.0, rng=rng) > 3, x, 0.0)

    found = audit(rare, 0.0, math.nan, rng=KeyedRandom(KEY), runs=20_000)
    assert found.epsilon_lower > 3


def described(partition: Partition, *member: int) -> str:
    return interval_words(partition.pieces(np.array(member, np.bool_)))


def test_events_in_words():
    partition = Partition(np.array([1.0, 2.0, np.inf]))
    assert described(partition, 0, 0, 1, 1, 1, 0, 0) == "lies in (1.0, inf)"
    assert described(partition, 0, 0, 1, 1, 1, 1, 1) == "is above 1.0"
    assert described(partition, 0, 1, 1, 1, 1, 1, 1) == "is at least 1.0"
    assert described(partition, 1, 1, 0, 0, 0, 0, 0) == "is at most 1.0"
    assert described(partition, 1, 0, 0, 0, 0, 0, 0) == "is below 1.0"
    assert described(partition, 1, 1, 0, 1, 0, 0, 0) == "lies in (−∞, 1.0] ∪ {2.0}"
    assert described(partition, *[0] * 7) == "lies in ∅"
    integers = Partition(np.array([3, 4, 9]))
    assert described(integers, 0, 1, 0, 0, 0, 0, 0) == "is 3"
    assert described(integers, 0, 1, 1, 1, 1, 0, 0) == "lies in [3, 8]"
    assert described(integers, 0, 0, 0, 1, 0, 0, 1) == "lies in {4} ∪ [10, ∞)"
    assert described(Partition(np.arange(40)), *(np.arange(81) % 4 == 1)).endswith("∪ … (20 pieces)")


def test_sums_in_words():
    """The meanings are those of numbers by hand."""
    words = sum_words("the output")
    codes = representable(np.array([0.25 + 2.0**-54, 0.5, -1.0, 2.0]), 0.0, 1.0).tolist()
    assert (
        words([Piece(codes[0], codes[0])]) == "the output lies between the inputs and is exactly x0 plus a float and is not x1 plus a float"
    )
    assert words([Piece(codes[2], codes[2])]).startswith("the output lies below both inputs and is exactly x0 plus a float")
    exact = [Piece(16 * side + 12, 16 * side + 14) for side in range(3)]
    assert words(exact) == "the output is exactly x0 plus a float and is not exactly x1 plus a float"
    assert words([Piece(0, 31)]) == "the output does not lie above both inputs"
    assert words([Piece(None, None)]) == "the output is any number"
    assert words([Piece(12, 12), Piece(31, 31)]).count("; or ") == 1
    scattered = [Piece(code, code) for code in (0, 5, 15, 19, 20, 28, 35, 37, 44)]
    assert words(scattered).endswith(" further cases")


def test_codes_with_meanings_in_words():
    words = code_words(dict(enumerate("abcdefg")))
    assert words([Piece(2, 2)]) == "c"
    assert words([Piece(None, 1), Piece(3, None)]) == "a; or b; or d; or e; or 2 further cases"


def test_trailing_zeros_in_words():
    codes = trailing_zeros(np.array([1.0, 1.5, 0.75])).tolist()
    words = zeros_words("the output")
    assert words([Piece(codes[1], codes[0])]) == "the output lies in ±[2^0, 2^1) and its 53-bit mantissa ends in 51 to 52 zeros"
    assert words([Piece(-1, -1), Piece(-2, -2)]) == "the output is 0; or is −0"
    assert words([Piece(codes[2], codes[0])]).startswith("the output lies from ±2^-1 with 51 zeros")
    assert words([Piece(None, -3)]) == "the output is not finite"


def test_the_best_union_of_cells_is_found():
    """Ten thousand runs of known probabilities: the event is what the likelihood ratio says, in either direction."""
    p = np.array([[0.4, 0.1, 0.3, 0.2], [0.1, 0.4, 0.3, 0.2]])
    counts = np.zeros((2, 9), np.int64)
    counts[:, 1::2] = np.rint(p * 10_000).astype(np.int64)
    partition = Partition(np.arange(4))
    found = best_candidate(Feature("code", lambda block: block), partition, counts, counts, 10_000, 0.0, 5.0)
    assert found.member[1::2].tolist() in ([True, False, False, False], [False, True, False, False])
    assert found.score == pytest.approx(math.log(4), abs=0.3)
    assert found.score < math.log(4)


def test_scores_of_losses_are_below_exact_bounds_in_the_tail():
    """Wilson's intervals at z are close to exact ones; only the choice of events rests on them."""
    z, rate = 4.0, float(stats.norm.sf(4.0))
    for hits, other in ((5000, 100), (60, 3), (9000, 9000)):
        score = losses(np.array([hits]), np.array([other]), 10_000, 0.0, z)[0]
        assert score == pytest.approx(loss_bound(hits, other, 10_000, 0.0, rate), abs=0.45)


def test_rows_become_integers():
    assert codes_of_rows(np.array([[1, 2], [0, 1]], np.uint8)).tolist() == [513, 256]
    assert codes_of_rows(np.array([[7], [-7]])).tolist() == [7, -7]
    rows = np.arange(40_000).reshape(-1, 4)
    assert len(np.unique(codes_of_rows(rows))) == 10_000
    assert codes_of_rows(rows[:1].repeat(2, axis=0)).tolist() == [codes_of_rows(rows[:1])[0]] * 2


# Low bits


def test_trailing_zeros_by_hand():
    values = np.array([1.0, 1.5, -1.0, 2.0, 1.0 + 2.0**-52, 5e-324, 0.0, -0.0, np.inf, np.nan])
    codes = trailing_zeros(values)
    assert (codes[:6] % 64).tolist() == [52, 51, 52, 52, 0, 52]
    assert (codes[:6] // 64 - 1074).tolist() == [0, 0, 0, 1, 0, -1074]
    assert codes[6:].tolist() == [-1, -2, -3, -3]


def test_representable_by_hand():
    y = np.array([0.25 + 2.0**-54, 0.5, -1.0, 2.0])  # the first less 1 lies between two floats
    sums = representable(y, 0.0, 1.0)
    assert (sums // 16).tolist() == [1, 1, 0, 2]
    assert (sums % 16).tolist() == [12, 15, 15, 15]


def test_reachable_by_hand():
    v = np.array([1, 12345, 2**52 - 1, 2**51 + 1], np.float64)
    for x in (0.0, 1.0):
        for sign in (-1, 1):
            y = x + sign * 0.7 * np.log(v * 2.0**-52)
            assert (reachable(y, x, 99.0, 0.7) & 2 == 2).all()
    assert (reachable(np.array([0.1]), 0.0, 0.0, 1.0) == 0).all()
