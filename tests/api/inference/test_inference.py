"""Means and regressions as a user meets them: what is returned, what it was computed from, and what is refused."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy, accounting, selection
from dpcore._html import MOST
from dpcore.inference import linear_regression, mean, sparse_mean
from dpcore.sums import clipped_sum
from dpcore.testing import KeyedRandom


def rng():
    return KeyedRandom(bytes(32)).at(0)


def table(n=500, d=4, seed=1):
    return np.random.default_rng(seed).standard_normal((n, d))


@pytest.mark.parametrize(
    "x", [table(), table()[:, 0], table().astype(np.float32), (100 * table()).astype(np.int64), np.asfortranarray(table())]
)
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_mean_is_a_noisy_exact_sum_over_n(x, delta):
    estimate, total = mean(x, 0.7, delta, 1.5, rng=rng()), clipped_sum(x, 1.5)
    d = x.shape[1] if x.ndim == 2 else 1
    if delta:
        scale, kind, factor = accounting.analytic_gaussian_scale(0.7, delta, 2 * 1.5 * math.sqrt(d)), "gaussian", 1.0
    else:
        scale, kind, factor = accounting.laplace_scale(0.7, 2 * 1.5 * d), "laplace", math.sqrt(2)
    assert (estimate.noise, estimate.scale) == (kind, pytest.approx(scale, rel=1e-14))
    assert np.array_equal(estimate.value, total.noisy(kind, estimate.scale, rng=rng()) / len(x))
    assert estimate.privacy == Privacy(0.7, delta)
    assert estimate.stderr == pytest.approx(factor * scale / len(x))
    assert estimate.population_stderr == pytest.approx(math.hypot(estimate.stderr, 1.5 / math.sqrt(len(x))))
    assert (estimate.radius, estimate.n) == (1.5, len(x))
    assert isinstance(estimate.value, float) == (x.ndim == 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        estimate.value = 0.0


def test_the_radius_of_theorem_9_2_2():
    x = table()
    for constant in (2.0, 3.5):
        estimate = mean(x, 1.0, 1e-6, "sqrt_log_n", sigma=0.9, constant=constant)
        assert estimate.radius == pytest.approx(constant * 0.9 * math.sqrt(math.log(500)))
        assert estimate.population_stderr == pytest.approx(math.hypot(estimate.stderr, math.sqrt(2) * 0.9 / math.sqrt(500)))
    assert mean(x, 1.0, 1e-6, "sqrt_log_n", sigma=0.9).radius == mean(x, 1.0, 1e-6, "sqrt_log_n", sigma=0.9, constant=2).radius


def test_one_record():
    assert isinstance(mean([3.0], 1.0, 0.0, 1.0).value, float)
    assert mean([[3.0, 1.0]], 1.0, 1e-5, 1.0).value.shape == (2,)


@pytest.mark.parametrize("method", ["peeling", "gumbel"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_sparse_mean_is_a_selection_of_rounded_sums(method, delta):
    x = table(300, 50)
    estimate, total = sparse_mean(x, 2.0, delta, 1.0, s=3, method=method, rng=rng()), clipped_sum(x, 1.0)
    sums, sensitivity = total.rounded()
    assert 2.0 <= sensitivity <= 2.0 * (1 + 300 * 2.0**-52)
    chosen = selection.top_s(np.abs(sums), 2.0, sensitivity, s=3, delta=delta, method=method, values=sums, rng=rng())
    assert estimate.value.shape == (50,)
    assert estimate.value.coords[0].tolist() == estimate.indices.tolist() == chosen.indices.tolist()
    assert np.array_equal(estimate.value.data, chosen.values / 300)
    assert (estimate.scale, estimate.value_scale, estimate.rule) == (chosen.scale, chosen.value_scale, chosen.rule)
    assert estimate.privacy == Privacy(2.0, delta)
    assert estimate.stderr == pytest.approx(math.sqrt(2) * chosen.value_scale / 300)
    assert estimate.population_stderr == pytest.approx(math.hypot(estimate.stderr, 1 / math.sqrt(300)))


def test_peeling_has_the_noise_of_algorithm_9_2_2():
    estimate = sparse_mean(table(1000, 20), 1.0, 1e-6, 1.0, s=4)
    assert estimate.scale == estimate.value_scale == pytest.approx(2 * 2.0 * math.sqrt(3 * 4 * math.log(1e6)), rel=1e-10)
    one_shot = sparse_mean(table(1000, 20), 1.0, 1e-6, 1.0, s=4, method="gumbel")
    assert one_shot.value_scale < estimate.value_scale
    assert one_shot.scale < estimate.scale
    assert sparse_mean(table(1000, 20), 1.0, 1e-6, 1.0, s=4, scale="calibrated").scale < estimate.scale


def test_a_sparse_mean_of_a_million_coordinates():
    x = np.zeros((40, 10**6), np.int8)
    x[:, [5, 999_999]] = [[1, -1]]
    estimate = sparse_mean(x, 50.0, 1e-6, 1.0, s=2, method="gumbel", rng=rng())
    assert sorted(estimate.indices.tolist()) == [5, 999_999]
    assert np.abs(estimate.value.toarray()[[5, 999_999]] - [1, -1]).max() < 10 * estimate.stderr


def test_regression_fields():
    x, y = table(2000, 3), table(2000, 1)[:, 0]
    fit = linear_regression(x, y, 1.0, 1e-6, x_radius=2.0, y_radius=3.0, rng=rng())
    assert fit.value.shape == fit.stderr.shape == (3,)
    assert fit.privacy == Privacy(1.0, 1e-6)
    unit = accounting.analytic_gaussian_scale(1.0, 1e-6, 1.0)
    sensitivities = (math.sqrt(2) * 4.0, 2 * 6.0, 9.0)
    assert sum((s / scale) ** 2 for s, scale in zip(sensitivities, fit.scales, strict=True)) <= 1 / unit**2
    assert sum((s / scale) ** 2 for s, scale in zip(sensitivities, fit.scales, strict=True)) == pytest.approx(1 / unit**2)
    again = linear_regression(np.asfortranarray(x), y[::-1].copy()[::-1], 1.0, 1e-6, x_radius=2.0, y_radius=3.0, rng=rng(), threads=2)
    assert np.array_equal(fit.value, again.value)
    assert np.array_equal(fit.stderr, again.stderr)


def test_regression_scales_with_its_units():
    x, y = table(2000, 3), table(2000, 1)[:, 0]
    fit = linear_regression(x, y, 1.0, 1e-6, x_radius=2.0, y_radius=4.0, rng=rng())
    scaled = linear_regression(x * 2.0**300, y * 2.0**-300, 1.0, 1e-6, x_radius=2.0**301, y_radius=2.0**-298, rng=rng())
    assert np.array_equal(scaled.value, fit.value * 2.0**-600)
    assert np.array_equal(scaled.stderr, fit.stderr * 2.0**-600)
    assert scaled.residual_scale == fit.residual_scale * 2.0**-300


CALLS = {
    "mean": lambda x=None, **options: mean(table() if x is None else x, **({"epsilon": 1.0, "delta": 1e-6, "radius": 1.0} | options)),
    "sparse_mean": lambda x=None, **options: sparse_mean(
        table() if x is None else x, **{"epsilon": 1.0, "delta": 1e-6, "radius": 1.0, "s": 2} | options
    ),
    "linear_regression": lambda x=None, **options: linear_regression(
        table() if x is None else x,
        **({"y": table()[:, 0], "epsilon": 1.0, "delta": 1e-6, "x_radius": 1.0, "y_radius": 1.0} | options),
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("parameter", "value", "error"),
    [
        ("epsilon", 0.0, ParameterError),
        ("epsilon", math.nan, ParameterError),
        ("epsilon", "1", ParameterTypeError),
        ("delta", 1.0, ParameterError),
        ("delta", -1e-9, ParameterError),
        ("delta", True, ParameterTypeError),
        ("threads", 0, ParameterError),
        ("rng", np.random.default_rng(), ParameterTypeError),
    ],
)
def test_parameters_out_of_range(name, parameter, value, error):
    with pytest.raises(error, match=parameter):
        CALLS[name](**{parameter: value})


@pytest.mark.parametrize("name", ["mean", "sparse_mean"])
def test_radius_is_checked(name):
    for radius, error in ((0.0, ParameterError), (math.inf, ParameterError), ("log_n", ParameterError), (None, ParameterTypeError)):
        with pytest.raises(error, match="radius"):
            CALLS[name](radius=radius)
    with pytest.raises(ParameterError, match="sigma must be given"):
        CALLS[name](radius="sqrt_log_n")
    with pytest.raises(ParameterError, match="two records"):
        CALLS[name](table(1), radius="sqrt_log_n", sigma=1.0)
    with pytest.raises(ParameterError, match="constant"):
        CALLS[name](radius="sqrt_log_n", sigma=1.0, constant=0.0)
    with pytest.raises(ParameterError, match="sigma"):
        CALLS[name](radius=1.0, sigma=-1.0)


@pytest.mark.parametrize("name", CALLS)
def test_data_that_do_not_fit(name):
    for x in (np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2)), 3.0):
        with pytest.raises(ParameterError, match=r"(x|records) must (have|hold)"):
            CALLS[name](x)
    with pytest.raises(ParameterTypeError, match=r"(x|records) must have one of the dtypes"):
        CALLS[name](table().astype(complex))
    holed = table()
    holed[41, 2] = np.nan
    with pytest.raises(DataError, match=r"index \(41, 2\) is NaN"):
        CALLS[name](holed)


def test_parameters_of_one_function():
    for s in (0, 5, 1.0):
        with pytest.raises((ParameterError, ParameterTypeError), match="s must be"):
            CALLS["sparse_mean"](s=s)
    with pytest.raises(ParameterError, match="method must be"):
        CALLS["sparse_mean"](method="oneshot_laplace")
    with pytest.raises(ParameterError, match=r"composition shows epsilon"):
        CALLS["sparse_mean"](scale=1.0)
    with pytest.raises(ParameterError, match="records must have shape"):
        CALLS["sparse_mean"](table()[:, 0])
    with pytest.raises(ParameterError, match="one length"):
        CALLS["linear_regression"](y=table()[:-1, 0])
    with pytest.raises(ParameterError, match="delta"):
        CALLS["linear_regression"](delta=0.0)
    for parameter in ("x_radius", "y_radius"):
        with pytest.raises(ParameterError, match=parameter):
            CALLS["linear_regression"](**{parameter: 2.0**401})
    with pytest.raises(ParameterError, match="beta"):
        CALLS["linear_regression"](beta=1.0)
    with pytest.raises(ParameterError, match="at most 4096 columns"):
        linear_regression(np.zeros((1, 5000)), [0.0], 1.0, 1e-6, x_radius=1.0, y_radius=1.0)
    y = table()[:, 0].copy()
    y[17] = np.nan
    with pytest.raises(DataError, match="y must not hold NaN; the number at index 17"):
        CALLS["linear_regression"](y=y)
    with pytest.raises(ParameterError, match="noise scale"):
        mean([1.0], 1e-200, 0.0, 2.0**900)


def test_infinities_and_huge_numbers_clip():
    x, y = np.array([[np.inf, 1.0], [1e308, -1e308], [5e-324, -np.inf], [0.0, 0.0]]), np.array([np.inf, -np.inf, 1e308, 5e-324])
    fit = linear_regression(np.tile(x, (50, 1)), np.tile(y, 50), 1.0, 1e-6, x_radius=2.0**-300, y_radius=1.0)
    assert np.isfinite(fit.value).all()
    assert np.isfinite(fit.stderr).all()
    assert np.isfinite(mean(x, 1.0, 1e-6, 1.0).value).all()


def test_what_numpy_raises_does_not_depend_on_records():
    tame, y = np.ones((300, 3)), np.ones(300)
    wild = np.array([[5e-324, 1e308, 1.0], [np.inf, -1e308, 5e-324], [5e-324, 5e-324, 5e-324]])
    with np.errstate(all="raise"):
        for rows in (tame, np.vstack([wild, tame[3:]])):
            linear_regression(rows, y, 1.0, 1e-6, x_radius=1.0, y_radius=1.0)
        linear_regression(tame, np.array([5e-324, 1e308, np.inf, *y[3:]]), 1.0, 1e-6, x_radius=1.0, y_radius=2.0**300)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_of_means_cover_the_clipped_mean(delta):
    x = np.random.default_rng(4).standard_normal((500, 2000))
    exact = np.clip(x, -1, 1).mean(axis=0)
    estimate = mean(x, 1.0, delta, 1.0, rng=rng())
    for confidence in (0.5, 0.95):
        low, high = estimate.interval(confidence).T
        covered = np.mean((low <= exact) & (exact <= high))
        # a share of 2,000 independent coordinates, five standard deviations apart
        assert abs(covered - confidence) < 5 * math.sqrt(confidence * (1 - confidence) / 2000)
    assert estimate.interval().shape == (2000, 2)
    assert mean([0.5, 0.7], 1.0, delta, 1.0).interval().shape == (2,)
    with pytest.raises(ParameterError, match="confidence must be in"):
        estimate.interval(0.0)


def test_intervals_of_sparse_means_cover_the_chosen_coordinates():
    x = np.zeros((1000, 400))
    x[:, :200] = 1.0
    covered = 0
    for run in range(20):
        estimate = sparse_mean(x, 50.0, 1e-6, 1.0, s=100, method="gumbel", rng=KeyedRandom(bytes([run]) * 32))
        low, high = estimate.interval(0.9).T
        true = x.mean(axis=0)[estimate.indices]
        covered += int(np.count_nonzero((low <= true) & (true <= high)))
    assert abs(covered / 2000 - 0.9) < 5 * math.sqrt(0.9 * 0.1 / 2000)


def test_notebooks_show_tables():
    x = np.random.default_rng(2).standard_normal((500, MOST + 10))
    dense = mean(x, 1.0, 1e-6, 1.0)._repr_html_()
    assert "… 10 more" in dense
    assert "Mean of 500 records" in dense
    few = sparse_mean(x, 1.0, 1e-6, 1.0, s=3)._repr_html_()
    assert few.count("<tr>") == 4
    fit = linear_regression(x[:, :2], x[:, 2], 1.0, 1e-6, x_radius=3.0, y_radius=3.0)._repr_html_()
    assert "standard error" in fit
    assert fit.count("<tr>") == 3
