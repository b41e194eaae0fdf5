"""Running totals as a user sees them: known scales, errors against theory, streams bit for bit, refusals, and what is kept."""

from __future__ import annotations

import copy
import math
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest

from dpcore import accounting, noise
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, RunningTotals
from dpcore.mechanisms._totals import FINENESS, PRECISION, coefficients, covered, decoder
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))
EXAMPLES = [RunningTotals(20, 1.0), RunningTotals(20, 1.0, 1e-6), RunningTotals(20, rho=0.1), RunningTotals(20, 1.0, 1e-6, math.sqrt(2.0))]


def theory(steps):
    """Root mean square error of the factorisation by √M at ρ = 1/2, from its definition."""
    squares = np.cumsum([(math.comb(2 * k, k) / 4**k) ** 2 for k in range(steps)])
    return math.sqrt(squares[-1] * squares.mean())


def error(totals):
    return math.sqrt(np.mean([totals.stderr(step=step) ** 2 for step in range(1, totals.steps + 1)]))


def of_a_tree(steps):
    """That of a plain tree with Gaussian noise at ρ = 1/2: each level counts, and a total has a node for each bit."""
    return math.sqrt(max(covered(steps)) * np.mean([step.bit_count() for step in range(1, steps + 1)]))


@pytest.mark.parametrize("steps", [16, 17, 52, 200])
def test_the_error_is_that_of_the_factorisation_and_below_a_tree(steps):
    found = error(RunningTotals(steps, rho=0.5))
    assert found == pytest.approx(theory(steps), rel=1e-4)
    assert found <= 0.6 * of_a_tree(steps)


def test_the_error_at_a_thousand_steps():
    totals = RunningTotals(1000, rho=0.5)
    weights = np.array(decoder(1000, 1000)[:1000], float) / float(FINENESS * 1000 << PRECISION)
    found = totals.scale * math.sqrt(np.cumsum(weights**2).mean())
    assert totals.stderr(step=1000) == pytest.approx(totals.scale * math.sqrt((weights**2).sum()))
    assert found == pytest.approx(theory(1000), rel=0.01)
    assert found / of_a_tree(1000) == pytest.approx(0.44, abs=0.005)
    # Integers of a coarse grid cost what the page says.
    coarse = np.array([round(16 * math.comb(2 * k, k) / 4**k) for k in range(1000)], float)
    inverse = np.zeros(1000)
    for k in range(1000):
        inverse[k] = (float(k == 0) - coarse[1 : k + 1] @ inverse[k - 1 :: -1][:k] if k else 1.0) / coarse[0]
    rounded = math.sqrt((coarse**2).sum() * np.cumsum(np.cumsum(inverse) ** 2).mean())
    assert rounded / theory(1000) == pytest.approx(1.07, abs=0.02)


def test_the_column_is_the_rounded_square_root():
    for steps in (1, 2, 33):
        exact = [Fraction(FINENESS * steps * math.comb(2 * k, k), 4**k) for k in range(steps)]
        assert list(coefficients(steps)) == [math.floor(each + Fraction(1, 2)) for each in exact]
        assert sorted(coefficients(steps), reverse=True) == list(coefficients(steps))
        assert min(coefficients(steps)) > 0


def test_scales_are_those_of_the_guarantees():
    one = RunningTotals(1, 0.5)
    assert one.scale == DiscreteLaplace(0.5, 1).scale
    assert RunningTotals(7, 0.5, sensitivity=2).scale == accounting.laplace_scale(0.5, 6)
    assert RunningTotals(4, 1.0, max_steps_per_unit=2).scale == 5.0  # entries of 3 and 2 nodes, and not 2·3
    column = coefficients(7)
    squared = sum(each**2 for each in column)
    given = RunningTotals(7, rho=0.3, sensitivity=3)
    assert Fraction(given.scale) ** 2 * 2 * Fraction(0.3) >= 9 * squared
    assert Fraction(math.nextafter(given.scale, 0)) ** 2 * 2 * Fraction(0.3) < 9 * squared
    approximate = RunningTotals(7, 1.0, 1e-6)
    assert approximate.scale == pytest.approx(DiscreteGaussian(1.0, 1e-6, math.sqrt(squared)).scale)
    assert approximate.zcdp == pytest.approx(squared / 2 / approximate.scale**2)
    assert approximate.privacy.epsilon == 1.0
    assert RunningTotals(7, rho=0.3).privacy is None
    assert RunningTotals(7, rho=0.3, delta=1e-6).privacy.epsilon == accounting.zcdp_epsilon(0.3, 1e-6)


@pytest.mark.parametrize("totals", EXAMPLES, ids=str)
def test_a_stream_is_the_same_step_by_step_and_at_once(totals):
    entries = np.random.default_rng(1).integers(-(10**6), 10**6, 20)
    at_once = totals.release(entries, rng=KeyedRandom(KEY))
    stream = totals.start(rng=KeyedRandom(KEY))
    assert [stream.add(entry) for entry in entries] == at_once.tolist()
    assert totals.release(entries[:11], rng=KeyedRandom(KEY)).tolist() == at_once[:11].tolist()
    draw = noise.discrete_laplace if totals.way.law == "discrete_laplace" else noise.discrete_gaussian
    words = draw(np.zeros(20, np.int64), totals.scale, rng=KeyedRandom(KEY))
    position = KeyedRandom(KEY).position()
    assert [totals.noise_of(step, position) for step in range(1, 21)] == words.tolist(), "the step is the position"
    assert totals.start(rng=KeyedRandom(KEY).at(5)).add(3) != at_once[0]
    assert len({totals.start().add(3) for _ in range(20)}) > 1


@pytest.mark.parametrize("totals", EXAMPLES, ids=str)
def test_totals_are_made_of_what_is_released(totals):
    """With noise 0 they are the totals, to the last bit that a float has; and a state that was written goes on."""
    entries = np.random.default_rng(2).integers(-(2**40), 2**40, 20).tolist()
    kept = totals.way.begin()
    for step, entry in enumerate(entries):
        kept.add(entry, 0)
        assert kept.total() == pytest.approx(sum(entries[: step + 1]), rel=1e-15, abs=1e-6)
        kept = totals.way.begin(kept.written())
        assert kept.step == step + 1


def test_a_tree_keeps_a_node_for_each_bit():
    kept = RunningTotals(2**14, 1.0).way.begin()
    for step in range(1, 2**14):
        kept.add(1, 0)
        assert len(kept.written()) == step.bit_count()
    assert kept.total() == 2**14 - 1


def test_streams_beyond_64_bits_stay_integers():
    found = RunningTotals(4, 1.0).release([2**62, 2**62, 2**62, 2**62])
    assert found.dtype == object
    assert found[-1] == pytest.approx(2**64)
    assert RunningTotals(4, 1.0).release(np.array([], int)).shape == (0,)


def test_an_interval_is_around_its_total():
    for totals in EXAMPLES:
        stream = totals.start()
        with pytest.raises(ParameterError, match="no step was made"):
            stream.interval()
        total = stream.add(5)
        low, high = stream.interval(0.9)
        assert low < total < high
        assert high - total == pytest.approx(totals.accuracy(0.1, step=1), abs=1)
        assert stream.interval(0.99)[1] > high
        assert stream.stderr == totals.stderr(step=1)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"steps": 0, "epsilon": 1}, ParameterError, r"steps must be in \[1, 16384\], got 0"),
        ({"steps": 2**14 + 1, "epsilon": 1}, ParameterError, "steps must be in"),
        ({"steps": 2.5, "epsilon": 1}, ParameterTypeError, "steps must be an integer"),
        ({"steps": 5}, ParameterError, "give either epsilon or rho: neither was given"),
        ({"steps": 5, "epsilon": 1, "rho": 1}, ParameterError, "both were given"),
        ({"steps": 5, "epsilon": 1, "max_steps_per_unit": 6}, ParameterError, r"max_steps_per_unit must be in \[1, 5\], got 6"),
        ({"steps": 5, "epsilon": 1, "sensitivity": 1.5}, ParameterTypeError, "sensitivity must be an integer"),
        ({"steps": 5, "epsilon": 1, "delta": 1.0}, ParameterError, "delta"),
        ({"steps": 5, "rho": -1}, ParameterError, "rho"),
        ({"steps": 5, "epsilon": 1, "relation": "other"}, ParameterError, "relation"),
        ({"steps": 5, "epsilon": 1e-14}, ParameterError, "noise scale"),
        ({"steps": 500, "epsilon": 1, "delta": 1e-6, "sensitivity": 1e9}, ParameterError, "noise scale"),
    ],
)
def test_what_is_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        RunningTotals(**arguments)


def test_a_stream_refuses_what_is_not_its_next_step():
    stream = RunningTotals(2, 1.0).start()
    for entry in (1.0, True, "1", None):
        with pytest.raises(ParameterTypeError, match="entry must be an integer, got") as found:
            stream.add(entry)
        assert "1.0" not in str(found.value)
    with pytest.raises(ParameterError, match="64 bits") as found:
        stream.add(2**63)
    assert str(2**63) not in str(found.value)
    assert stream.step == 0
    stream.add(1)
    stream.add(1)
    with pytest.raises(ParameterError, match="all steps = 2 were made"):
        stream.add(1)
    with pytest.raises(ParameterError, match="at most steps = 2 integers"):
        RunningTotals(2, 1.0).release([1, 2, 3])
    with pytest.raises(ParameterError, match=r"step must be in \[1, 2\]"):
        RunningTotals(2, 1.0).stderr(step=3)


def test_a_stream_is_one():
    stream = RunningTotals(2, 1.0).start()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ParameterTypeError, match="must not be copied"):
            copied(stream)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks are the subject")
def test_a_child_does_not_go_on():
    stream = RunningTotals(2, 1.0).start()
    child = os.fork()
    if child == 0:
        try:
            stream.add(1)
        except BudgetError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
