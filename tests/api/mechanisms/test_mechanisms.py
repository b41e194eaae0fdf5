"""Mechanisms as a user sees them: known scales, refusals, releases, and the rows of the errata that concern them."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import dpcore
from dpcore import accounting, noise
from dpcore.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from dpcore.testing import KeyedRandom

KEY = bytes(range(32))

EXAMPLES = [
    Laplace(0.5, 2.0),
    Gaussian(0.5, 1e-6, 2.0),
    Gaussian(0.5, 1e-6, 2.0, method="classical"),
    DiscreteLaplace(0.5, 2),
    DiscreteGaussian(0.5, 1e-6, 2.5),
    DiscreteGaussian(0.5, 1e-6, 2, method="exact"),
]
DRAWS = {
    Laplace: noise.laplace,
    Gaussian: noise.gaussian,
    DiscreteLaplace: noise.discrete_laplace,
    DiscreteGaussian: noise.discrete_gaussian,
}


# Known values


@pytest.mark.parametrize(
    ("epsilon", "delta", "scale"),
    # Bisection of δ = Φ(1/2σ − εσ) − e^ε Φ(−1/2σ − εσ) in 700 digits, apart from this library.
    [
        (1.0, 1e-5, "3.7306316348159418139"),
        (0.1, 1e-9, "50.209818263015327992"),
        (0.5, 1e-6, "8.0576184807250442744"),
        (1e-10, 1e-5, "39894.028571268135731"),
        (700.0, 1e-300, "0.064032587750874309205"),
    ],
)
def test_analytic_scale_has_its_known_value(epsilon, delta, scale):
    found = accounting.analytic_gaussian_scale(epsilon, delta, 1.0)
    assert Fraction(math.nextafter(found, 0.0)) < Fraction(scale) <= Fraction(found)
    assert Gaussian(epsilon, delta, 3.0).scale == pytest.approx(3.0 * found, rel=1e-15)


def test_analytic_gaussian_saves_a_third_of_the_classical_variance():
    # Balle and Wang's point, at ε = 1: for δ = 10⁻⁵ the ratio of variances is 0.593.
    ratio = (Gaussian(1.0, 1e-5, 1.0).scale / Gaussian(1.0, 1e-5, 1.0, method="classical").scale) ** 2
    assert ratio == pytest.approx(0.593, abs=1e-3)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (0.5, 1e-6), (0.01, 1e-12), (1.0, 0.9)])
def test_classical_scale_is_the_printed_formula_rounded_up(epsilon, delta):
    scale = Gaussian(epsilon, delta, 2.0, method="classical").scale
    formula = 2.0 * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert scale == pytest.approx(formula, rel=1e-14)
    assert accounting.gaussian_delta(epsilon, scale, 2.0) < delta


@pytest.mark.parametrize(
    ("scale", "delta"), [(0.45, 0.39232), (0.50, 0.10476), (0.52, 0.11661), (0.54, 0.12723), (0.56, 0.13634), (0.60, 0.14911)]
)
def test_discrete_gaussian_delta_has_its_known_value(scale, delta):
    assert accounting.discrete_gaussian_delta(2.0, scale, 1) == pytest.approx(delta, abs=5e-6)


def test_more_discrete_gaussian_noise_can_be_less_private():
    at = {scale: accounting.discrete_gaussian_delta(2.0, scale, 1) for scale in (0.52, 0.56)}
    assert at[0.52] < at[0.56]
    assert at[0.52] > 0.11 > accounting.discrete_gaussian_delta(2.0, DiscreteGaussian(2.0, 0.11, 1, method="exact").scale, 1)
    # The continuous Gaussian's calibration does not carry over.
    borrowed = accounting.analytic_gaussian_scale(10.0, 1e-7, 1.0)
    assert accounting.discrete_gaussian_delta(10.0, borrowed, 1) > 1.5e-7


def test_zcdp_conversions_agree_with_one_another():
    rho = 0.1
    delta = accounting.zcdp_delta(rho, 2.0)
    assert delta == pytest.approx(4.32521086909256e-6, rel=1e-13)
    assert accounting.zcdp_epsilon(rho, delta) == pytest.approx(2.0, rel=1e-12)
    scale = accounting.zcdp_discrete_gaussian_scale(2.0, delta, 3.0)
    assert 9.0 / (2 * scale**2) == pytest.approx(rho, rel=1e-12)
    # The closed form ρ + 2√(ρ ln 1/δ) is looser.
    assert accounting.zcdp_epsilon(rho, 1e-6) < rho + 2 * math.sqrt(rho * math.log(1e6))
    assert accounting.zcdp_epsilon(1e-9, 0.5) == 0.0


@pytest.mark.parametrize("misled", ["_scan_small_scales", "gaussian_ratio"])
def test_what_a_search_finds_is_certified_before_it_is_returned(misled, monkeypatch):
    from dpcore.accounting import _calibration

    search = getattr(_calibration, misled)
    # A scale that is 2^-40 or 2^-49 too small: what a search with a wrong last step would give.
    wrong = {"_scan_small_scales": lambda *a: search(*a) * (1 - 2.0**-40), "gaussian_ratio": lambda *a: search(*a) * (1 + 2.0**-49)}
    monkeypatch.setattr(_calibration, misled, wrong[misled])
    if misled == "gaussian_ratio":
        scale = _calibration.analytic_gaussian_scale.__wrapped__(1.5, 1e-6, 1.0)
        assert accounting.gaussian_delta(1.5, scale, 1.0) <= 1e-6 < accounting.gaussian_delta(1.5, scale * (1 - 2.0**-50), 1.0)
    else:
        scale = _calibration.exact_discrete_gaussian_scale.__wrapped__(1.5, 1e-6, 1)
        assert (
            accounting.discrete_gaussian_delta(1.5, scale, 1) <= 1e-6 < accounting.discrete_gaussian_delta(1.5, scale * (1 - 2.0**-30), 1)
        )


# Errata


def test_erratum_004_definition_9_1_4_the_classical_scale_fails_beyond_its_proof():
    printed = math.sqrt(2 * math.log(1.25 / 1e-3)) / 8.0
    assert accounting.gaussian_delta(8.0, printed, 1.0) == pytest.approx(1.31e-3, rel=5e-3)
    assert accounting.gaussian_delta(8.0, Gaussian(8.0, 1e-3, 1.0).scale, 1.0) <= 1e-3
    # Violations begin near ε = 7 to 10, not at 2.
    assert accounting.gaussian_delta(2.0, math.sqrt(2 * math.log(1.25 / 1e-3)) / 2.0, 1.0) < 1e-3
    with pytest.raises(dpcore.ParameterError, match=r"epsilon must be in \(0, 1\].*got 8\.0"):
        Gaussian(8.0, 1e-3, 1.0, method="classical")


@pytest.mark.parametrize(("epsilon", "delta", "really"), [(0.5, 1e-6, 4.16e-6), (0.9, 1e-9, 1.66e-7)])
def test_erratum_004_algorithm_9_2_1_the_printed_noise_is_too_small(epsilon, delta, really):
    n, d, radius = 1000, 7, 2.5
    sensitivity = 2 * radius * math.sqrt(d) / n
    printed = math.sqrt(4 * radius**2 * d * math.log(1 / delta) / (n * epsilon) ** 2)
    assert accounting.gaussian_delta(epsilon, printed, sensitivity) == pytest.approx(really, rel=5e-3)
    for method in ("analytic", "classical"):
        scale = Gaussian(epsilon, delta, sensitivity, method=method).scale
        assert accounting.gaussian_delta(epsilon, scale, sensitivity) <= delta
    assert scale == pytest.approx(math.sqrt(8 * radius**2 * d * math.log(1.25 / delta)) / (n * epsilon), rel=1e-12)


# What every mechanism is


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_a_mechanism_is_an_immutable_value(mechanism):
    with pytest.raises(dataclasses.FrozenInstanceError):
        mechanism.scale = 1.0
    with pytest.raises((AttributeError, TypeError)):
        mechanism.nonsense = 1.0
    for twin in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism), dataclasses.replace(mechanism), eval(repr(mechanism))):
        assert twin == mechanism
        assert hash(twin) == hash(mechanism)
        assert (twin.scale, twin.privacy) == (mechanism.scale, mechanism.privacy)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_privacy_is_what_was_asked_for(mechanism):
    assert mechanism.privacy == dpcore.Privacy(0.5, getattr(mechanism, "delta", 0.0), "replace")
    other = dataclasses.replace(mechanism, relation="add_remove")
    assert other.privacy.relation == "add_remove"
    assert other.scale == mechanism.scale
    assert other != mechanism


def test_numbers_of_other_types_are_widened():
    mechanism = Laplace(np.float32(0.5), 2)
    assert mechanism == Laplace(0.5, 2.0)
    assert type(mechanism.epsilon) is float
    assert type(DiscreteLaplace(1, np.int8(2)).sensitivity) is int
    assert Laplace(1.0, Fraction(1, 3)).scale >= Fraction(1, 3)
    assert Laplace(1.0, 2**53 + 1).scale >= 2**53 + 1


# Releases


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_release_is_noise_of_the_mechanisms_scale(mechanism):
    values = np.array([7])
    released = mechanism.release(values, rng=KeyedRandom(KEY))
    assert np.array_equal(released, DRAWS[type(mechanism)](values, mechanism.scale, rng=KeyedRandom(KEY)))
    assert released.dtype == (np.int64 if "Discrete" in type(mechanism).__name__ else np.float64)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_a_scalar_gives_a_scalar_and_out_is_written(mechanism):
    number = mechanism.release(7, rng=KeyedRandom(KEY), threads=1)
    assert type(number) is (int if "Discrete" in type(mechanism).__name__ else float)
    out = np.zeros(1, dtype=type(number))
    assert mechanism.release(np.array([7]), rng=KeyedRandom(KEY), out=out) is out
    assert out[0] == number


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_the_secure_source_is_the_default(mechanism):
    wide = dataclasses.replace(mechanism, epsilon=1e-6)
    assert len({wide.release(0) for _ in range(8)}) > 1


def test_counting_query():
    # Steinberger (2019), Beispiel 1.7 (d): a count changes by at most 1.
    mechanism = DiscreteLaplace(1.0, 1)
    ages = np.array([23, 35, 61, 70, 44])
    count = mechanism.release(int(np.count_nonzero(ages >= 40)), rng=KeyedRandom(KEY))
    assert type(count) is int
    assert mechanism.scale == 1.0
    assert abs(count - 3) <= mechanism.accuracy(1e-9)


def test_exact_calibration_is_for_one_answer_only():
    mechanism = DiscreteGaussian(1.0, 1e-6, 1, method="exact")
    assert mechanism.release(np.zeros(0, dtype=np.int64)).shape == (0,)
    assert mechanism.release(np.zeros((1, 1), dtype=np.int64)).shape == (1, 1)
    out = np.full(2, 99)
    for values in (np.zeros(2, dtype=np.int64), [1, 2], ((1,), (2,))):
        with pytest.raises(dpcore.ParameterError, match=r"values must hold at most 1 answer for method='exact', got 2"):
            mechanism.release(values)
    with pytest.raises(dpcore.ParameterError):
        mechanism.release(np.zeros(2, dtype=np.int64), out=out)
    assert np.all(out == 99)
    assert DiscreteGaussian(1.0, 1e-6, 1).release(np.zeros(2, dtype=np.int64)).shape == (2,)


# Refusals: (make, message). Each names the parameter, its value and its range.

SCALE = r"must give a noise scale in "
REFUSALS = [
    (lambda: Laplace(0.0, 1.0), r"epsilon must be positive, got 0\.0"),
    (lambda: Laplace(-1.0, 1.0), r"epsilon .* got -1\.0"),
    (lambda: Laplace(math.inf, 1.0), r"epsilon .* got inf"),
    (lambda: Laplace(math.nan, 1.0), r"epsilon .* got nan"),
    (lambda: Laplace(5e-324, 1.0), r"epsilon .* got 5e-324"),
    (lambda: Laplace(1.0, 0.0), r"sensitivity .* got 0\.0"),
    (lambda: Laplace(1.0, math.inf), r"sensitivity .* got inf"),
    (lambda: Laplace(1.0, math.nan), r"sensitivity .* got nan"),
    (lambda: Laplace(2.0**900, 2.0**-100), r"epsilon=.*, sensitivity=.* " + SCALE + r"\[2\*\*-960, 2\*\*960\], got scale 9\.\d*e-302"),
    (lambda: Laplace(1e-300, 1e300), r"epsilon=1e-300, sensitivity=1e\+300 " + SCALE + r".*got scale inf"),
    (lambda: Laplace(1.0, 1.0, relation="swap"), r"relation must be one of 'replace', 'add_remove', got 'swap'"),
    (lambda: Gaussian(1.0, 0.0, 1.0), r"delta must be in \(0\.0, 1\.0\), got 0\.0"),
    (lambda: Gaussian(1.0, 1.0, 1.0), r"delta .* got 1\.0"),
    (lambda: Gaussian(1.0, -1e-9, 1.0), r"delta .* got -1e-09"),
    (lambda: Gaussian(1.0, math.nan, 1.0), r"delta .* got nan"),
    (lambda: Gaussian(0.0, 1e-6, 1.0), r"epsilon .* got 0\.0"),
    (lambda: Gaussian(1.0, 1e-6, -2.0), r"sensitivity .* got -2\.0"),
    (lambda: Gaussian(1.0, 1e-6, 1e300), r"epsilon=1\.0, delta=1e-06, sensitivity=1e\+300 " + SCALE),
    (lambda: Gaussian(1.0, 1e-6, 1.0, method="exact"), r"method must be one of 'analytic', 'classical', got 'exact'"),
    (lambda: Gaussian(1.0000000000000002, 1e-6, 1.0, method="classical"), r"epsilon must be in \(0, 1\] .* got 1\.0000000000000002"),
    (lambda: Gaussian(1.0, 0.0, 1.0, method="classical"), r"delta .* got 0\.0"),
    (lambda: DiscreteLaplace(1.0, 0), r"sensitivity must be in \[1, 9007199254740992\], got 0"),
    (lambda: DiscreteLaplace(1.0, 2**53 + 1), r"sensitivity .* got 9007199254740993"),
    (lambda: DiscreteLaplace(2.0**20, 1), r"epsilon=1048576\.0, sensitivity=1 " + SCALE + r"\(2\*\*-20, 2\*\*40\]"),
    (lambda: DiscreteLaplace(2.0**-41, 1), SCALE + r"\(2\*\*-20, 2\*\*40\], got scale 2199023255552\.0"),
    (lambda: DiscreteGaussian(1.0, 0.0, 1), r"delta .* got 0\.0"),
    (lambda: DiscreteGaussian(1e-13, 1e-6, 1e9), SCALE + r"\(2\*\*-20, 2\*\*40\]"),
    (lambda: DiscreteGaussian(1e-300, 1e-300, 1e300), SCALE + r".* got scale inf"),
    (lambda: DiscreteGaussian(1.0, 1e-6, 0, method="exact"), r"sensitivity must be in \[1, 9007199254740992\], got 0"),
    (lambda: DiscreteGaussian(1.0, 1e-6, 1, method="analytic"), r"method must be one of 'zcdp', 'exact', got 'analytic'"),
    (lambda: Laplace(1.0, 1.0).accuracy(0.0), r"beta must be in \(0\.0, 1\.0\), got 0\.0"),
    (lambda: Gaussian(1.0, 1e-6, 1.0).accuracy(1.0), r"beta .* got 1\.0"),
    (lambda: DiscreteLaplace(1.0, 1).accuracy(0.1, size=0), r"size must be in \[1, ∞\], got 0"),
    (lambda: accounting.gaussian_delta(-1.0, 1.0, 1.0), r"epsilon must be in \[0\.0, inf\), got -1\.0"),
    (lambda: accounting.gaussian_delta(1.0, 0.0, 1.0), r"scale .* got 0\.0"),
    (lambda: accounting.discrete_gaussian_delta(1.0, 2.0**-20, 1), r"scale must be in \(9\.5\d*e-07, 1099511627776\.0\]"),
    (lambda: accounting.zcdp_delta(-0.1, 1.0), r"rho must be in \[0\.0, inf\), got -0\.1"),
    (lambda: accounting.zcdp_epsilon(0.1, 0.0), r"delta .* got 0\.0"),
]


@pytest.mark.parametrize(("make", "message"), REFUSALS)
def test_a_wrong_parameter_is_refused_by_name_value_and_range(make, message):
    with pytest.raises(dpcore.ParameterError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Laplace("1", 1.0), "epsilon must be a real number, got '1' of type str"),
        (lambda: Laplace(True, 1.0), "epsilon must be a real number, got True of type bool"),
        (lambda: Laplace(1.0, None), "sensitivity must be a real number, got None"),
        (lambda: Laplace(1.0, np.array([1.0, 2.0])), "sensitivity must be a real number"),
        (lambda: Laplace(1.0, 1.0, relation=1), "relation must be one of"),
        (lambda: Gaussian(1.0, None, 1.0), "delta must be a real number"),
        (lambda: Gaussian(1.0, 1e-6, 1.0, method=None), "method must be one of"),
        (lambda: DiscreteLaplace(1.0, 1.0), "sensitivity must be an integer, got 1.0 of type float"),
        (lambda: DiscreteLaplace(1.0, True), "sensitivity must be an integer, got True of type bool"),
        (lambda: DiscreteGaussian(1.0, 1e-6, 1.0, method="exact"), "sensitivity must be an integer, got 1.0 of type float"),
        (lambda: Laplace(1.0, 1.0).accuracy("0.1"), "beta must be a real number"),
        (lambda: Laplace(1.0, 1.0).accuracy(0.1, size=2.0), "size must be an integer, got 2.0 of type float"),
        (lambda: Laplace(1.0, 1.0).release(None), "values must be a number or an array of numbers, got None"),
        (lambda: DiscreteLaplace(1.0, 1).release([0.5]), "values must hold integers, got float64; use a mechanism for real numbers"),
        (lambda: Laplace(1.0, 1.0).release([1.0], rng=np.random.default_rng()), "rng must be None"),
    ],
)
def test_a_parameter_of_the_wrong_type_is_refused(make, message):
    with pytest.raises(dpcore.ParameterTypeError, match=message):
        make()


# Cost


def test_importing_mechanisms_loads_no_calibration_code():
    program = "import sys, dpcore.mechanisms; print([name for name in ('dpcore.accounting._calibration', 'scipy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=repr)
def test_a_calibration_is_solved_once(mechanism, monkeypatch):
    from dpcore.accounting import _calibration

    def again(*args):
        raise AssertionError("solved again")

    for name in ("_gaussian_delta", "_discrete_gaussian_delta", "_best_order", "_density_and_gap"):
        monkeypatch.setattr(_calibration, name, again)
    assert dataclasses.replace(mechanism).scale == mechanism.scale
