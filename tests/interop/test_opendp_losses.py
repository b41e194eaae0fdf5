"""Privacy maps of dpcore's measurements beside those of OpenDP, and beside the exact losses."""

from __future__ import annotations

import decimal
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from dpcore.accounting import gaussian_delta
from dpcore.errors import ParameterError
from dpcore.interop import opendp as fast
from support.opendp import FEATURES, atoms, dp, features, list_space, number_space, score_space

NOISES = {"laplace": (fast.make_laplace, dp.m.make_laplace), "gaussian": (fast.make_gaussian, dp.m.make_gaussian)}


@pytest.fixture(autouse=True)
def enabled():
    with features(*FEATURES):
        yield


def grid(n=200):
    """Distances and scales over sixteen orders of magnitude, and small whole numbers."""
    rng = random.Random(1)
    wide = [(10 ** rng.uniform(-8, 8), 10 ** rng.uniform(-8, 8)) for _ in range(n)]
    return wide + [(float(d), float(b)) for d in range(1, 12) for b in range(1, 12)]


def ulps(a, b):
    """How many floats a is above b."""
    return int(np.float64(a).view(np.int64) - np.float64(b).view(np.int64))


def exact(noise, d, scale):
    ratio = Fraction(d) / Fraction(scale)
    return ratio if noise == "laplace" else ratio**2 / 2


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", ["f64", "i32"])
def test_maps_of_noise_are_those_of_opendp_to_the_last_bit(noise, kind):
    ours, native = NOISES[noise]
    space = list_space(noise, kind)[0], {"laplace": dp.l1_distance, "gaussian": dp.l2_distance}[noise](T="f64")
    for d, scale in grid():
        loss = ours(*space, scale).map(d)
        assert loss == native(*space, scale).map(d)
        assert Fraction(math.nextafter(loss, 0.0)) < exact(noise, d, scale) <= Fraction(loss)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", ["i32", "u32", "i64", "u64", "f32", "f64"])
def test_distances_of_every_type_enter_exactly(noise, kind):
    ours, native = NOISES[noise]
    space = atoms("f64"), dp.absolute_distance(T=kind)
    for d in (0, 1, 3, 2**24 - 1):
        given = float(d) if kind.startswith("f") else d
        assert ours(*space, 3.0).map(given) == native(*space, 3.0).map(given)
    if kind in ("i64", "u64"):
        d = 2**53 + 1  # no float64
        assert Fraction(ours(*space, 1.0).map(d)) >= exact(noise, d, 1.0)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("kind", ["f64", "i32"])
def test_without_noise_the_loss_is_that_of_opendp(noise, kind):
    ours, native = NOISES[noise]
    zero, one = (0.0, 1.0) if kind == "f64" else (0, 1)
    for make in (ours, native):
        measurement = make(*number_space(kind), 0.0)
        assert (measurement.map(zero), measurement.map(one)) == (0.0, math.inf)
        assert measurement(7 * one) == 7 * one
    assert ours(*number_space(kind), 2.0).map(zero) == 0.0


@pytest.mark.parametrize("noise", NOISES)
def test_losses_at_the_ends_of_the_range_stay_above_the_truth(noise):
    ours, _ = NOISES[noise]
    for d, scale in [(5e-324, 1.0), (5e-324, 2.0**960), (1e308, 1e-308), (1e308, 1.0), (1.0, 5e-324), (1.0, 2.0**960)]:
        loss = ours(*number_space(), scale).map(d)
        assert loss > 0
        assert math.isinf(loss) or Fraction(loss) >= exact(noise, d, scale)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.5])
def test_the_loss_of_gaussian_noise_at_a_delta_is_shown_and_near_the_least(delta):
    for scale in (0.01, 0.3, 1.0, 3.0, 100.0, 1e6):
        measurement = fast.make_gaussian(*number_space(), scale, delta=delta)
        assert str(measurement.output_measure) == "Approximate(MaxDivergence)"
        for d in (0.5, 1.0, 7.0):
            epsilon, failure = measurement.map(d)
            assert failure == delta
            assert gaussian_delta(epsilon, scale, d) <= delta
            assert epsilon == 0.0 or gaussian_delta(epsilon * (1 - 1e-8), scale, d) > delta
            if d / scale > 20:  # OpenDP's conversion overflows
                continue
            converted = dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*number_space(), scale)), delta)
            assert epsilon <= converted.map(d)[0]


def test_the_loss_at_a_delta_at_the_ends_of_the_range():
    measurement = fast.make_gaussian(*number_space(), 1.0, delta=1e-6)
    assert measurement.map(0.0) == (0.0, 1e-6)
    assert measurement.map(1e-300)[0] == 0.0
    assert measurement.map(1e200) == (math.inf, 1e-6)
    assert fast.make_gaussian(*number_space(), 0.0, delta=1e-6).map(1.0) == (math.inf, 1e-6)
    for delta in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ParameterError, match=r"delta must be in \(0.0, 1.0\)"):
            fast.make_gaussian(*number_space(), 1.0, delta=delta)
    with pytest.raises(ParameterError, match="delta must be None for integers"):
        fast.make_gaussian(*number_space("i32"), 1.0, delta=1e-6)


MEASURES = {"pure": dp.max_divergence(), "zcdp": dp.zero_concentrated_divergence()}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("k", [None, 1, 3, 7])
def test_maps_of_choices_are_at_most_those_of_opendp_and_never_below_the_truth(measure, monotonic, k):
    space, divergence = score_space(monotonic=monotonic), MEASURES[measure]
    for d, scale in grid(100):
        if k is None:
            ours, native = fast.make_noisy_max(*space, divergence, scale), dp.m.make_noisy_max(*space, divergence, scale)
        else:
            ours, native = fast.make_noisy_top_k(*space, divergence, k, scale), dp.m.make_noisy_top_k(*space, divergence, k, scale)
        loss = ours.map(d)
        pick = (1 if monotonic else 2) * Fraction(d) / Fraction(scale)
        truth = (k or 1) * (pick if measure == "pure" else pick**2 / 8)
        assert Fraction(math.nextafter(loss, 0.0)) < truth <= Fraction(loss)
        assert 0 <= ulps(native.map(d), loss) <= 6  # OpenDP rounds up after every step


def test_maps_of_responses_are_at_most_those_of_opendp():
    for k in (2, 3, 10):
        names = [str(i) for i in range(k)]
        for p in np.linspace(1 / k, 1, 120)[1:-1].tolist():
            space = dp.atom_domain(T=str), dp.discrete_distance()
            loss, native = fast.make_randomized_response(*space, names, p).map(1), dp.m.make_randomized_response(names, p).map(1)
            assert native * (1 - 1e-13) <= loss <= native
            if k == 2:
                yes_no = fast.make_randomized_response_bool(dp.atom_domain(T=bool), dp.discrete_distance(), p)
                assert yes_no.map(1) == loss
                assert yes_no.map(7) == loss  # one record changes wholly or not at all
                assert yes_no.map(0) == 0.0


def test_losses_of_responses_are_the_least_floats_above_the_truth():
    with decimal.localcontext(prec=60):
        for p in (0.5000000000000001, 0.55, 0.75, 0.9, 0.999999):
            loss = fast.make_randomized_response_bool(dp.atom_domain(T=bool), dp.discrete_distance(), p).map(1)
            truth = (decimal.Decimal(p) / (1 - decimal.Decimal(p))).ln()
            assert decimal.Decimal(math.nextafter(loss, 0.0)) < truth <= decimal.Decimal(loss)


def test_ends_of_the_range_of_responses():
    one = dp.atom_domain(T=bool), dp.discrete_distance()
    many = dp.vector_domain(dp.atom_domain(T=bool)), dp.hamming_distance()
    assert fast.make_randomized_response_bool(*one, 0.5).map(1) == 0.0
    assert fast.make_randomized_response_bool(*one, 1.0).map(1) == math.inf
    assert fast.make_randomized_response_bool(*one, 1.0)(True) is True
    assert fast.make_randomized_response_bool(*many, 1.0).map(0) == 0.0
    single = fast.make_randomized_response_bool(*many, 0.75).map(1)
    assert Fraction(fast.make_randomized_response_bool(*many, 0.75).map(10)) >= 10 * Fraction(single)
    words = dp.atom_domain(T=str), dp.discrete_distance()
    names = ["a", "b", "c"]
    assert fast.make_randomized_response(*words, names, 1 / 3).map(1) == dp.m.make_randomized_response(names, 1 / 3).map(1) == 0.0
    assert fast.make_randomized_response(*words, names, 1.0).map(1) == math.inf
    assert fast.make_randomized_response(*words, names, 1.0)("b") == "b"


def test_records_of_the_exponential_mechanism_are_counted_by_changes():
    ordinary = fast.make_ks_exponential(dp.vector_domain(atoms()), dp.change_one_distance(), 0.3, bounds=(0, 1), draws=3, bins=4)
    assert [ordinary.map(d) for d in (0, 1)] == [0.0, 0.3]
    assert Fraction(ordinary.map(3)) >= 3 * Fraction(0.3)
    sized = fast.make_ks_exponential(dp.vector_domain(atoms(), 100), dp.symmetric_distance(), 0.3, bounds=(0, 1), draws=3, bins=4)
    assert [sized.map(d) for d in (0, 1, 2, 3)] == [0.0, 0.0, 0.3, 0.3]
    assert sized.map(4) == ordinary.map(2)


def test_distances_that_opendp_refuses_are_refused():
    measurement = fast.make_laplace(*number_space(), 1.0)
    for d in (-1.0, math.nan, math.inf):
        with pytest.raises(dp.OpenDPException, match=r"d_in must be in \[0, ∞\)"):
            measurement.map(d)
