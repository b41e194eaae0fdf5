"""Sizes of releases and their rates: the orders of Wasserman & Zhou (2010), with the corrections that the proofs ask for."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from dpcore.distributions import tuning
from dpcore.errors import ParameterError, ParameterTypeError

N = 10**4, 10**16 // 2
"""Sizes between which exponents are measured: so far apart that whole numbers do not matter."""


def exponents(sizes, names):
    """Exponents of n between the two sizes, of some fields."""
    first, last = (sizes(n) for n in N)
    return [math.log(getattr(last, name) / getattr(first, name)) / math.log(N[1] / N[0]) for name in names]


@pytest.mark.parametrize("r", [1, 2, 3])
@pytest.mark.parametrize("constant", [50.0, 400.0])
def test_smoothed_histograms_have_the_orders_of_theorems_4_2_and_4_3(r, constant):
    options = {"dimension": r, "constant": constant}
    ks = exponents(lambda n: tuning.smoothed_histogram_ks(1.0, n=n, **options), ("bins", "draws"))
    assert ks == pytest.approx([r / (6 + r), 4 / (6 + r)], abs=0.01)
    l2 = exponents(lambda n: tuning.smoothed_histogram_l2(1.0, n=n, **options), ("bins", "draws"))
    assert l2 == pytest.approx([r / (2 * r + 3), (r + 2) / (2 * r + 3)], abs=0.01)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_the_smoothing_of_theorem_4_3_is_the_proofs_not_the_printed_one(r):
    # δ is of its order where it is well below 1: for large n
    small, large = (tuning.smoothed_histogram_l2(1.0, n=n, dimension=r, constant=0.02).smoothing for n in (10**12, 9 * 10**15))
    slope = math.log(large / small) / math.log(9000)
    assert slope == pytest.approx(-1 / (2 * r + 3), abs=0.02)
    assert abs(slope + 1 / (r + 3)) > 0.02


@pytest.mark.parametrize("tune", [tuning.smoothed_histogram_ks, tuning.smoothed_histogram_l2])
@pytest.mark.parametrize("n", [1, 7, 1000, 10**7, 2**53])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 30.0])
@pytest.mark.parametrize("r", [1, 3])
def test_smoothing_is_the_least_that_is_private(tune, n, epsilon, r):
    found = tune(epsilon, n=n, dimension=r)
    with mpmath.workdps(60):
        spent = [
            found.draws * mpmath.log(1 + (1 - mpmath.mpf(delta)) * found.bins / (n * mpmath.mpf(delta)))
            for delta in (found.smoothing, found.smoothing * (1 - 1e-12))
        ]
        assert spent[0] <= epsilon < spent[1]
    assert 0 < found.smoothing < 1
    assert round(found.bins ** (1 / r)) ** r == found.bins


@pytest.mark.parametrize("r", [1, 2, 4])
def test_perturbed_histograms_have_the_order_of_theorem_4_4(r):
    (found,) = exponents(lambda n: tuning.perturbed_histogram_bins(n=n, dimension=r), ("bins",))
    assert found == pytest.approx(r / (2 + r), abs=0.02)
    assert tuning.perturbed_histogram_bins(n=1000, constant=2.0) == tuning.Tuning(bins=20, draws=1000)


@pytest.mark.parametrize(("epsilon", "largest", "constant"), [(1.0, math.e, 1.0), (0.1, 2.0, 1 / 16), (4.0, 10.0, 3.0)])
def test_the_exponential_mechanism_has_the_draws_of_theorem_5_4(epsilon, largest, constant):
    for n in (1000, 10**8):
        found = tuning.ks_exponential_draws(epsilon, n=n, largest_density=largest, constant=constant)
        assert found.draws == round(constant * (3 * epsilon / math.log(largest)) ** (2 / 3) * n ** (2 / 3))
        assert found.bins == round(math.sqrt(found.draws))


@pytest.mark.parametrize("gamma", [0.75, 1.5, 2.0, 5.0])
def test_series_have_the_terms_of_section_6(gamma):
    (terms,) = exponents(lambda n: tuning.orthogonal_series_terms(n=n, smoothness=gamma, constant=50.0), ("terms",))
    assert terms == pytest.approx(1 / (2 * gamma + 1), abs=0.01)
    (k,) = exponents(lambda n: tuning.l2_exponential_draws(n=n, smoothness=gamma), ("draws",))
    assert k == pytest.approx(0.5, abs=1e-6)
    found = tuning.l2_exponential_draws(n=10**8, smoothness=gamma)
    assert found.terms == tuning.orthogonal_series_terms(n=10**8, smoothness=gamma).terms
    assert found.draw_terms == tuning.orthogonal_series_terms(n=found.draws, smoothness=gamma).terms


def test_nothing_is_smaller_than_one():
    assert tuning.smoothed_histogram_l2(1e-3, n=1, dimension=5, constant=1e-3).bins == 1
    assert tuning.ks_exponential_draws(1e-9, n=1) == tuning.Tuning(bins=1, draws=1)
    assert tuning.orthogonal_series_terms(n=1, smoothness=3.0, constant=1e-9).terms == 1


# The tables of Section 1.1


TABLES = [
    # mechanism, distance, options, exponent, power of ln n
    ("smoothed_histogram", "l2", {"dimension": 2}, Fraction(-2, 7), 0),
    ("smoothed_histogram", "ks", {"dimension": 2}, Fraction(-1, 4), 0.5),
    ("perturbed_histogram", "l2", {"dimension": 2}, Fraction(-1, 2), 0),
    ("perturbed_histogram", "ks", {}, Fraction(-1, 2), 0.5),
    ("perturbed_histogram", "ks", {"dimension": 3}, Fraction(-2, 5), 1),
    ("ks_exponential", "ks", {}, Fraction(-1, 3), 0),
    ("minimax", "l2", {"dimension": 3}, Fraction(-2, 5), 0),
    ("minimax", "ks", {"dimension": 3}, Fraction(-1, 2), 0),
    ("l2_exponential", "l2", {"smoothness": 2}, Fraction(-2, 5), 0),
    ("orthogonal_series", "l2", {"smoothness": 2}, Fraction(-4, 5), 0),
    ("minimax", "l2", {"smoothness": 2}, Fraction(-4, 5), 0),
]


@pytest.mark.parametrize(("mechanism", "distance", "options", "exponent", "log_power"), TABLES)
def test_rates_are_those_of_the_tables(mechanism, distance, options, exponent, log_power):
    found = tuning.rate(mechanism, distance, n=10**5, **options)
    assert (found.exponent, found.log_power) == (pytest.approx(float(exponent)), log_power)
    assert found.value == pytest.approx(10 ** (5 * float(exponent)) * math.log(10**5) ** log_power)


@pytest.mark.parametrize("distance", tuning.DISTANCES)
@pytest.mark.parametrize("r", [1, 2, 5])
def test_no_private_release_beats_the_best_estimators(distance, r):
    best = tuning.rate("minimax", distance, n=10**9, dimension=r)
    for mechanism in ("smoothed_histogram", "perturbed_histogram"):
        found = tuning.rate(mechanism, distance, n=10**9, dimension=r)
        assert (found.exponent, found.log_power) >= (best.exponent, best.log_power)
    # the printed rate is the smaller of two, and does
    printed = min((-2 / (2 + r), 1.0), (-1 / 2, 0.5))
    assert distance == "l2" or r != 1 or printed < (best.exponent, best.log_power)


# What is refused


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tuning.smoothed_histogram_ks(1.0, n=0), "n"),
        (lambda: tuning.smoothed_histogram_ks(0.0, n=10), "epsilon"),
        (lambda: tuning.smoothed_histogram_l2(math.nan, n=10), "epsilon"),
        (lambda: tuning.smoothed_histogram_l2(1.0, n=10, dimension=0), "dimension"),
        (lambda: tuning.perturbed_histogram_bins(n=2**53 + 1), "n"),
        (lambda: tuning.perturbed_histogram_bins(n=10, constant=0.0), "constant"),
        (lambda: tuning.perturbed_histogram_bins(n=10, constant=1e300), "constant"),
        (lambda: tuning.ks_exponential_draws(1.0, n=10, largest_density=1.0), "largest_density"),
        (lambda: tuning.ks_exponential_draws(1e300, n=10), "epsilon"),
        (lambda: tuning.l2_exponential_draws(n=10, smoothness=0.5), "smoothness"),
        (lambda: tuning.orthogonal_series_terms(n=10, smoothness=math.inf), "smoothness"),
        (lambda: tuning.rate("histogram", "l2", n=10), "mechanism"),
        (lambda: tuning.rate("minimax", "tv", n=10), "distance"),
        (lambda: tuning.rate("ks_exponential", "l2", n=10), "distance must be 'ks' for ks_exponential"),
        (lambda: tuning.rate("minimax", "l2", n=1), "n"),
        (lambda: tuning.rate("orthogonal_series", "ks", n=10, smoothness=1.0), "distance"),
        (lambda: tuning.rate("orthogonal_series", "l2", n=10, dimension=2), "dimension"),
        (lambda: tuning.rate("ks_exponential", "ks", n=10, dimension=2), "dimension"),
        (lambda: tuning.rate("smoothed_histogram", "l2", n=10, smoothness=2.0), "smoothness"),
        (lambda: tuning.rate("minimax", "ks", n=10, smoothness=2.0), "smoothness"),
    ],
)
def test_a_parameter_out_of_range_is_named(call, name):
    with pytest.raises(ParameterError, match=name):
        call()


@pytest.mark.parametrize("bad", [10.0, True, "10"])
def test_a_parameter_of_another_type_is_refused(bad):
    with pytest.raises(ParameterTypeError, match="n must be an integer"):
        tuning.perturbed_histogram_bins(n=bad)
