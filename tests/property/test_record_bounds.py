"""`sample_size_lower_bound`: its bounds against exact enumeration and the best private test of tiny data, by linear programming."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.inference import sample_size_lower_bound, sample_size_needed, sample_size_order
from dpcore.inference.record_bounds import divergence, moved_normal, moved_signs, sign_divergence


def samples(n, d):
    return np.array(list(itertools.product((-1, 1), repeat=n * d))).reshape(-1, n, d)


def mixture(n, d, b):
    """Probabilities of all samples of n records of random means ±b, and of uniform ones."""
    every, law = samples(n, d), 0.0
    for signs in itertools.product((-1, 1), repeat=d):
        law = law + np.prod((1 + b * np.array(signs) * every) / 2, axis=(1, 2)) / 2**d
    return law, np.full(len(every), 2.0 ** (-n * d))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (5, 1), (3, 2), (4, 2), (2, 3)])
@pytest.mark.parametrize("b", [0.05, 0.4, 0.9])
def test_the_divergence_is_an_upper_bound_of_the_exact_one(n, d, b):
    mixed, uniform = mixture(n, d, b)
    exact = math.log(float((mixed**2 / uniform).sum()))
    assert exact <= divergence(n, d, b, "signs") * (1 + 1e-12) + 1e-15
    if n >= 4 and b < 0.5:
        assert divergence(n, d, b, "signs") <= 2 * exact


@pytest.mark.parametrize("b", [0.1, 0.5, 1.0])
def test_the_divergence_of_normal_records_is_that_of_their_sum(b):
    """E of the squared likelihood ratio e^(−nb²/2) cosh(b·Σx), Σx ~ N(0, n), by quadrature."""
    n, d = 7, 3
    x = np.linspace(-60, 60, 400_001)
    density = np.exp(-(x**2) / (2 * n)) / math.sqrt(2 * math.pi * n)
    ratio = np.exp(-n * b * b / 2) * np.cosh(b * x)
    assert divergence(n, d, b, "normal") == pytest.approx(d * math.log(float((density * ratio**2).sum() * (x[1] - x[0]))), rel=1e-6)


def coupled(n, d, b):
    """E of the sum of total variations between the law of each record given those before it and the uniform law, exactly."""
    total, every = 0.0, np.array(list(itertools.product((-1, 1), repeat=d)))
    for j in range(n):
        for past, p in zip(samples(j, d), mixture(j, d, b)[0], strict=True) if j else [(np.zeros((0, d)), 1.0)]:
            predicted = b * np.tanh(past.sum(axis=0) * math.atanh(b))
            total += p * 0.5 * float(np.abs(np.prod((1 + predicted * every) / 2, axis=1) - 2.0**-d).sum())
    return total


CASES = [(2, 1, 0.3), (4, 1, 0.6), (6, 1, 0.2), (3, 2, 0.5), (2, 3, 0.4)]


@pytest.mark.parametrize(("n", "d", "b"), CASES)
def test_coupled_samples_differ_in_no_more_records_than_the_bound(n, d, b):
    exact = coupled(n, d, b)
    assert exact <= moved_signs(n, d, b) <= 6 * exact


@pytest.mark.parametrize(("n", "d", "b"), [(4, 1, 0.6), (6, 1, 0.2), (3, 2, 0.5)])
@pytest.mark.parametrize("eta", [0.02, 0.1])
def test_the_best_private_test_has_no_more_advantage_than_the_bound(n, d, b, eta):
    """Largest P(reject | mixture) − P(reject | uniform) of a (0, η)-private test, by a linear programme over all samples."""
    every = samples(n, d).reshape(-1, n * d)
    mixed, uniform = mixture(n, d, b)
    different = (every[:, None, :] != every[None, :, :]).reshape(len(every), len(every), n, d).any(axis=3).sum(axis=2)
    first, second = np.nonzero(different == 1)
    rows = np.zeros((len(first), len(every)))
    rows[np.arange(len(first)), first], rows[np.arange(len(first)), second] = 1.0, -1.0
    best = -linprog(uniform - mixed, A_ub=rows, b_ub=np.full(len(first), eta), bounds=(0, 1), method="highs").fun
    assert best <= eta * moved_signs(n, d, b)
    assert best > 0.15 * eta * moved_signs(n, d, b)  # so a tenth of the bound, a broken twin, fails


def test_normal_predictions_are_bounded_by_quadrature():
    """Total variation of the second record given the first, for one coordinate."""
    b, x = 0.5, np.linspace(-12, 12, 4001)
    step = x[1] - x[0]

    def normal(mean):
        return np.exp(-((x - mean) ** 2) / 2) / math.sqrt(2 * math.pi)

    def mixed(t):
        return 0.5 * (1 + t) * normal(b) + 0.5 * (1 - t) * normal(-b)

    first = 0.5 * np.abs(mixed(0.0) - normal(0.0)).sum() * step
    second = sum(
        0.5 * np.abs(mixed(math.tanh(b * y)) - normal(0.0)).sum() * step * p
        for y, p in zip(x[::20], mixed(0.0)[::20] * step * 20, strict=True)
    )
    assert first + second <= moved_normal(2, 1, b) <= 4 * (first + second)


@pytest.mark.parametrize("b", [1e-9, 1e-4, 2.0**-8 * 0.999, 0.1, 0.999])
def test_the_divergence_of_a_sign_is_rounded_up(b):
    from mpmath import mp, mpf, workdps

    with workdps(60):
        exact = ((1 + mpf(b)) * mp.log(1 + mpf(b)) + (1 - mpf(b)) * mp.log(1 - mpf(b))) / 2
        assert exact <= sign_divergence(b) <= exact * (1 + mpf("2e-5"))


def test_it_is_below_what_tests_need_and_near_its_order():
    for epsilon in (1.0, 0.1, 1e-3, 1e-6):
        for d, alpha in ((16, 1.0), (256, 0.1), (4096, 0.5)):
            order = sample_size_order(epsilon, d=d, alpha=alpha, method="optimal")
            for model in ("signs", "normal"):
                bound = sample_size_lower_bound(epsilon, 0.0, d=d, alpha=alpha, model=model)
                assert order / 2.5 < bound < 2 * order
            assert sample_size_lower_bound(epsilon, 1e-9, d=d, alpha=alpha) <= sample_size_needed(epsilon, 1e-9, d=d, alpha=alpha)


def test_a_failure_mass_is_charged_as_in_the_theorem():
    """(0, δ)-private tests as in the chapter: δ takes the place of tanh(ε/2)."""
    level = math.tanh(0.05)
    both = [sample_size_lower_bound(*budget, d=256, alpha=0.1) for budget in ((0.1, 0.0), (0.0, level))]
    assert both[0] == both[1]
    assert sample_size_lower_bound(0.0, 0.999, d=256, alpha=0.1) == sample_size_lower_bound(700.0, 0.0, d=256, alpha=0.1)


def test_extremes():
    assert sample_size_lower_bound(1.0, 0.0, d=1, alpha=1.0) >= 1
    assert sample_size_lower_bound(700.0, 0.9, d=1, alpha=1.0, model="normal") >= 1
    assert sample_size_lower_bound(2.0**-400, 0.0, d=2**40, alpha=2.0**-40) > 2**400
    assert sample_size_lower_bound(1e-6, 0.0, d=4, alpha=2.0, model="normal") > 10**5
    assert sample_size_lower_bound(1e-6, 0.0, d=4, alpha=2.0) == 666_667  # 1/(3 tanh(ε/2)), as each record may differ


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": -1.0}, {"epsilon": 701.0}, {"epsilon": math.nan}, {"delta": 1.0}, {"epsilon": 0.0}, {"d": 0}, {"d": 2**41},
        {"alpha": 0.0}, {"alpha": 4.1}, {"model": "binary"}, {"d": 2.5},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(change):
    options = {"epsilon": 1.0, "delta": 0.0, "d": 16, "alpha": 1.0} | change
    with pytest.raises((ParameterError, ParameterTypeError), match=next(iter(change))):
        sample_size_lower_bound(options.pop("epsilon"), options.pop("delta"), **options)


def test_orders_have_their_formulas():
    assert sample_size_order(0.5, d=64, alpha=0.25, method="optimal") == pytest.approx(128 + 4 * 0.25 ** (-4 / 3) * 0.5 ** (-2 / 3) + 8)
    with pytest.raises(ParameterError, match="method"):
        sample_size_order(0.5, d=64, alpha=0.25, method="best")
