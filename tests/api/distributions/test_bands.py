"""Bands of releases: what they say for data, shapes, and bad input."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore import Privacy, distributions
from dpcore.distributions import CdfBand, DensityBand, DrawsRelease
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.testing import KeyedRandom
from support.kernels import KEY

DATA = np.random.default_rng(5).beta(2, 5, 20_000)
SURE = 1 - 1e-6


def releases():
    rng = KeyedRandom(KEY)
    return {
        "perturbed": distributions.perturbed_histogram(DATA, 1.0, (0, 1), bins=50, rng=rng),
        "discrete": distributions.perturbed_histogram(DATA, 1.0, (0, 1), bins=31, noise="discrete_laplace", rng=rng),
        "one cell": distributions.perturbed_histogram(DATA, 1.0, (0, 1), bins=1, rng=rng),
        "smoothed": distributions.smoothed_histogram(DATA, 1.0, (0, 1), draws=200, bins=20, rng=rng),
        "dirichlet": distributions.dirichlet_histogram(DATA, 1.0, (0, 1), draws=200, bins=20, rng=rng),
        "ks": distributions.ks_exponential(DATA, 1.0, (0, 1), draws=50, bins=20, rng=rng),
        "series": distributions.orthogonal_series(DATA, 1.0, (0, 1), terms=4, rng=rng),
    }


RELEASES = releases()


@pytest.mark.parametrize("target", ["sample", "population"])
@pytest.mark.parametrize("name", [name for name in RELEASES if name != "series"])
def test_bands_hold_the_distribution_function_of_the_data(name, target):
    band = RELEASES[name].cdf_band(SURE, target=target)
    assert isinstance(band, CdfBand)
    x = np.linspace(-0.1, 1.1, 500)
    low, high = band(x).T
    of_data = np.mean(DATA[:, None] <= x, axis=0)
    assert np.all((low <= of_data) & (of_data <= high))
    assert np.all(np.diff(low) >= 0)
    assert np.all(np.diff(high) >= 0)
    assert band(-0.1).tolist() == [0, 0]
    assert band(1.0).tolist() == [1, 1]
    q = np.linspace(0.01, 0.99, 99)
    below, above = band.quantile(q).T
    of_data = np.quantile(DATA, q, method="inverted_cdf")
    assert np.all((below <= of_data) & (of_data <= above))
    assert band.quantile([[0.5]]).shape == (1, 1, 2)
    assert "all points at once" in band._repr_html_()


def test_bands_of_a_population_are_wider_and_narrow_with_confidence():
    released = RELEASES["perturbed"]
    widths = [
        float(np.diff(released.cdf_band(c, target=t)(0.3))[0]) for c, t in ((0.9, "sample"), (0.9, "population"), (0.999, "population"))
    ]
    assert widths[0] < widths[1] < widths[2]


def test_density_bands_hold_the_averages_and_the_projection():
    released = RELEASES["perturbed"]
    low, high = released.density_band(SURE, target="sample")(released.cells.edges()[:-1] + 1e-3).T
    true = released.cells.counts(DATA) / len(DATA) * 50
    assert np.all((low <= true) & (true <= high))
    series, x = RELEASES["series"], np.linspace(0, 1, 300)
    band = series.density_band(SURE, target="sample")
    assert isinstance(band, DensityBand)
    orders = np.arange(1, 5)[:, None]
    own = np.sqrt(2) * np.cos(np.pi * orders * DATA).mean(axis=1)
    projected = 1 + np.sqrt(2) * own @ np.cos(np.pi * orders * x)
    low, high = band(x).T
    assert np.all((low <= projected) & (projected <= high))
    low, high = series.interval(SURE, target="sample").T
    assert np.all((low <= own) & (own <= high))
    assert np.all(np.diff(series.interval(0.9)) >= np.diff(series.interval(0.9, target="sample")))
    assert band([-1.0, 2.0]).tolist() == [[0, 0], [0, 0]]
    assert "projection onto 4 cosines" in band._repr_html_()


def test_bands_keep_to_the_units_of_the_bounds():
    rng = KeyedRandom(KEY)
    moved = distributions.perturbed_histogram(5 + 10 * DATA, 1.0, (5, 15), bins=50, rng=rng)
    assert moved.cdf_band(SURE)(5 + 10 * 0.3).shape == (2,)
    low, high = moved.density_band(0.99, target="sample")(8.0)
    assert 0 < low < high < 1


def test_a_density_band_of_two_coordinates():
    pairs = np.random.default_rng(2).beta(2, 5, (5_000, 2))
    released = distributions.perturbed_histogram(pairs, 5.0, (0, 1), bins=(4, 3), rng=KeyedRandom(KEY))
    assert released.density_band(0.9)(np.zeros((6, 2))).shape == (6, 2)
    with pytest.raises(ParameterError, match="one coordinate"):
        released.cdf_band()


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, float("nan"), "0.9"])
def test_confidences_out_of_range(confidence):
    for released in (RELEASES["perturbed"], RELEASES["smoothed"]):
        with pytest.raises((ParameterError, ParameterTypeError), match="confidence"):
            released.cdf_band(confidence)
    with pytest.raises((ParameterError, ParameterTypeError), match="confidence"):
        RELEASES["series"].density_band(confidence)


def test_bad_input():
    with pytest.raises(ParameterError, match="target must be"):
        RELEASES["perturbed"].cdf_band(target="people")
    with pytest.raises(ParameterError, match="target must be"):
        RELEASES["series"].interval(target=None)
    with pytest.raises(ParameterError, match="NaN"):
        RELEASES["perturbed"].cdf_band()(float("nan"))
    for q in (0.0, 1.0, float("nan"), [0.5, 2.0]):
        with pytest.raises(ParameterError, match="q must be"):
            RELEASES["perturbed"].cdf_band().quantile(q)
    cells = RELEASES["smoothed"].cells
    bare = DrawsRelease(Privacy(1.0), 10, cells.box, np.array([0.5]), cells)
    with pytest.raises(ParameterError, match="link"):
        bare.cdf_band()
    near = distributions.l2_exponential(DATA[:10], 1.0, (0, 1), draws=2, terms=2)
    for method in (near.interval, near.density_band):
        with pytest.raises(ParameterError, match="noise of a known law"):
            method()


@pytest.mark.parametrize(("n", "epsilon"), [(1, 1e-6), (1, 700.0), (3, 20.0), (1000, 1e-3)])
@pytest.mark.some(2)
def test_extremes(n, epsilon):
    data = DATA[:n]
    for noise in ("laplace", "discrete_laplace"):
        released = distributions.perturbed_histogram(data, epsilon, (0, 1), bins=8, noise=noise)
        for confidence in (1e-9, 0.95, 1 - 2**-50):
            ends = released.cdf_band(confidence)(np.linspace(0, 1, 30))
            assert np.isfinite(ends).all()
            assert ends.min() >= 0
            assert ends.max() <= 1
            assert np.isfinite(released.density_band(confidence)(0.3)).all()
    series = distributions.orthogonal_series(data, epsilon, (0, 1), terms=40)
    assert np.isfinite(series.density_band(1 - 2**-50)(0.3)).all()
    assert np.isfinite(series.interval(1 - 2**-50)).all()
