"""Released histograms as a user meets them: what is returned, what is made of it, and what is refused."""

from __future__ import annotations

import dataclasses
import math
import sys

import numpy as np
import pytest

from dpcore import DataError, ParameterError, ParameterTypeError, Privacy
from dpcore.distributions import (
    Box,
    Cells,
    DrawsRelease,
    HistogramRelease,
    Release,
    dirichlet_histogram,
    least_smoothing,
    perturbed_histogram,
    perturbed_masses,
    smoothed_histogram,
)
from dpcore.distributions._simultaneous import SmoothedLink
from dpcore.testing import KeyedRandom
from support.ids import shown


def rng():
    return KeyedRandom(bytes(32))


def data(n=500, r=1, seed=1):
    x = np.random.default_rng(seed).beta(2, 5, (n, r))
    return x[:, 0] if r == 1 else x


RELEASES = {
    "smoothed": lambda x, epsilon=1.0, bounds=(0, 1), **more: smoothed_histogram(x, epsilon, bounds, draws=40, **more),
    "dirichlet": lambda x, epsilon=1.0, bounds=(0, 1), **more: dirichlet_histogram(x, epsilon, bounds, draws=40, **more),
    "perturbed": lambda x, epsilon=1.0, bounds=(0, 1), **more: perturbed_histogram(x, epsilon, bounds, **more),
    "discrete": lambda x, epsilon=1.0, bounds=(0, 1), **more: perturbed_histogram(x, epsilon, bounds, noise="discrete_laplace", **more),
}
each_release = pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES)


@each_release
@pytest.mark.parametrize(
    ("r", "bins", "bounds"), [(1, 9, (0, 1)), (2, 9, (0, 1)), (2, (4, 2), ((0, -1), (1, 1.5))), (3, 27, (0, 2)), (2, 4, (0, [1, 2]))]
)
def test_what_every_release_has(make, r, bins, bounds):
    release = make(data(r=r), 0.7, bins=bins, bounds=bounds, rng=rng())
    assert isinstance(release, Release)
    assert (release.privacy, release.n, release.dimension) == (Privacy(0.7), 500, r)
    assert release.box == Box.of(bounds, r)
    points = release.sample(200, rng=rng())
    assert points.shape == ((200,) if r == 1 else (200, r))
    assert release.box.contains(points.reshape(200, r)).all()
    assert release.sample(0).shape == ((0,) if r == 1 else (0, r))
    assert np.array_equal(points, release.sample(200, rng=rng()))
    assert (release.density(points) > 0).all()
    again = make(data(r=r), 0.7, bins=bins, bounds=bounds, rng=rng(), threads=2)
    assert np.array_equal(points, again.sample(200, rng=rng()))
    with pytest.raises(dataclasses.FrozenInstanceError):
        release.n = 3
    outside = np.array(release.box.high) + 1e-9
    assert release.density(outside if r > 1 else outside[0]) == 0.0
    low, high = (np.array(ends) if r > 1 else ends[0] for ends in (release.box.low, release.box.high))
    assert (release.cdf(low - 1.0), release.cdf(high)) == (0.0, pytest.approx(1.0, abs=1e-14))
    assert release.cdf(outside + 5 if r > 1 else outside[0] + 5) == pytest.approx(1.0, abs=1e-14)


@each_release
def test_the_density_has_integral_one(make):
    release = make(data(r=2), bins=(7, 3), bounds=((-2, 0), (1, 9)))
    cells = release.cells
    middles = np.stack(np.meshgrid(*[(e[1:] + e[:-1]) / 2 for e in (cells.edges(0), cells.edges(1))], indexing="ij"), axis=-1)
    density = release.density(middles)
    assert density.shape == (7, 3)
    assert float(density.sum()) * cells.volume == pytest.approx(1.0, abs=1e-12)


def test_draws_are_all_that_is_kept():
    release = smoothed_histogram(data(), 2.0, (0, 1), draws=60, bins=5, rng=rng())
    assert isinstance(release, DrawsRelease)
    assert release.draws.shape == (60,)
    assert not release.draws.flags.writeable
    assert {field.name for field in dataclasses.fields(release)} == {"privacy", "n", "box", "draws", "cells", "link", "_masses"}
    assert release.link == SmoothedLink(least_smoothing(2.0, draws=60, bins=5, n=release.n))  # public numbers alone
    counts = np.histogram(release.draws, release.cells.edges())[0]
    assert np.allclose(release.density((release.cells.edges()[1:] + release.cells.edges()[:-1]) / 2), counts / 60 * 5)
    x = np.linspace(-0.1, 1.1, 97)
    assert np.allclose(release.cdf(x), [(release.draws <= point).mean() for point in x])
    assert release.cdf(release.draws.max()) == 1.0


def test_the_distribution_function_of_draws_counts_coordinatewise(monkeypatch):
    from dpcore.distributions import _results

    release = dirichlet_histogram(data(r=2), 2.0, (0, 1), draws=300, bins=(4, 6), rng=rng())
    x = np.random.default_rng(3).uniform(-0.2, 1.2, (50, 7, 2))
    expected = (release.draws[None, None] <= x[:, :, None]).all(axis=-1).mean(axis=-1)
    assert np.allclose(release.cdf(x), expected)
    monkeypatch.setattr(_results, "_PAIRS", 1000)
    assert np.allclose(release.cdf(x), expected)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 1, 3)])
def test_the_distribution_function_of_a_histogram_is_its_integral(shape):
    r = len(shape)
    box = Box.of(((-1.0, 0.0, 3.0)[:r], (2.0, 0.5, 7.0)[:r]), r)
    cells, random = Cells.of(shape, box), np.random.default_rng(1)
    masses = random.dirichlet(np.ones(cells.m))
    release = HistogramRelease(Privacy(1.0), 10, box, cells, masses.copy(), masses)
    for point in random.uniform(np.array(box.low) - 0.3, np.array(box.high) + 0.3, (40, r)):
        # the part of every cell that lies below the point
        parts = [np.clip((point[a] - cells.edges(a)[:-1]) / np.diff(cells.edges(a)), 0, 1) for a in range(r)]
        below = parts[0]
        for part in parts[1:]:
            below = np.multiply.outer(below, part)
        assert release.cdf(point if r > 1 else point[0]) == pytest.approx(float((masses.reshape(shape) * below).sum()), abs=1e-12)


def test_masses_are_the_noisy_counts_cut_and_normalised():
    for kind, dtype in (("laplace", np.float64), ("discrete_laplace", np.int64)):
        release = perturbed_histogram(data(), 0.5, (0, 1), bins=30, noise=kind, rng=rng())
        assert release.noisy_counts.dtype == dtype
        cut = np.maximum(release.noisy_counts, 0)
        assert (cut == 0).any()
        assert np.allclose(release.masses, cut / cut.sum(), rtol=1e-15)
        assert not release.masses.flags.writeable
        assert not release.noisy_counts.flags.writeable
        noisy, masses = perturbed_masses(release.cells.counts(data()), 0.5, noise=kind, rng=rng())
        assert np.array_equal(noisy, release.noisy_counts)
        assert np.array_equal(masses, release.masses)


def test_if_all_counts_are_cut_the_release_is_uniform():
    # counts below 0, which the noise does not lift above it
    noisy, masses = perturbed_masses(np.array([[-1000, -1000, -1000, -1000], [-1000, 50_000, 0, -1000]]), 1.0, rng=rng())
    assert (noisy[0] < 0).all()
    assert np.array_equal(masses[0], [0.25] * 4)
    assert masses[1, 1] > 0.99
    assert masses[1, 0] == masses[1, 3] == 0.0
    zero, uniform = perturbed_masses(np.zeros((200, 1), np.int64), 1e-3, noise="discrete_laplace", rng=rng())
    assert (zero < 0).any()
    assert (uniform == 1.0).all()


def test_rows_of_counts_are_releases_of_their_own():
    counts = np.random.default_rng(1).multinomial(1000, [0.2, 0.3, 0.5], (4, 6))
    noisy, masses = perturbed_masses(counts, 1.0, rng=rng())
    assert noisy.shape == masses.shape == (4, 6, 3)
    assert np.allclose(masses.sum(axis=-1), 1.0)
    assert len(np.unique(noisy - counts)) == counts.size


def test_millions_of_cells():
    x = data(200_000)
    release = perturbed_histogram(x, 1.0, (0, 1), bins=2**22, rng=rng())
    assert release.masses.sum() == pytest.approx(1.0, abs=1e-9)
    assert (release.masses[release.cells.codes(release.sample(1000))] > 0).all()
    smoothed = smoothed_histogram(x, 10.0, (0, 1), draws=1000, bins=2**22, rng=rng())
    assert smoothed.density(smoothed.draws).min() == pytest.approx(2**22 / 1000)
    assert dirichlet_histogram(x, 10.0, (0, 1), draws=1000, bins=2**22, rng=rng()).draws.shape == (1000,)


def test_cells_of_mass_zero_are_never_drawn():
    box = Box.of((0, 1))
    masses = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    release = HistogramRelease(Privacy(1.0), 10, box, Cells.of(5, box), masses.copy(), masses)
    points = release.sample(10_000)
    assert set(release.cells.codes(points).tolist()) == {1, 3}


def test_uniform_numbers_at_the_ends_of_cells(monkeypatch):
    """Those that no run would meet: exactly between two cells, exactly 0, and the largest below 1."""
    words = np.array([0, 2**62, 2**63, 2**64 - 1], np.uint64)
    monkeypatch.setattr("dpcore._backend.release.uniform_words", lambda position, n: words)
    box = Box.of((0, 1))

    def codes(masses):
        release = HistogramRelease(Privacy(1.0), 10, box, Cells.of(len(masses), box), masses.copy(), masses)
        return release.cells.codes(release.sample(4)).tolist()

    assert codes(np.array([0.0, 0.25, 0.0, 0.25, 0.5, 0.0])) == [1, 3, 4, 4]
    tenths = np.full(10, 0.1)
    assert np.cumsum(tenths)[-1] < 1
    assert codes(tenths)[-1] == 9  # and not 10


def test_one_record_one_cell_one_draw():
    for make in RELEASES.values():
        assert make([0.5], bins=1).sample(3).shape == (3,)
    assert smoothed_histogram([0.5], 1.0, (0, 1), draws=1, bins=1).draws.shape == (1,)
    assert dirichlet_histogram([[0.5, 0.2]], 1.0, (0, 1), draws=1, bins=1).draws.shape == (1, 2)


def test_a_smoothing_of_one_looks_at_nothing():
    a, b = (smoothed_histogram(np.full(100, x), 1.0, (0, 1), draws=500, bins=8, smoothing=1.0, rng=rng()).draws for x in (0.0, 1.0))
    assert np.array_equal(a, b)


def test_priors_of_each_cell():
    prior = np.full(6, 70.0)
    one = dirichlet_histogram(data(), 1.0, (0, 1), draws=100, bins=6, prior=prior, rng=rng())
    prior[3] = 1e9
    other = dirichlet_histogram(data(), 1.0, (0, 1), draws=100, bins=6, prior=prior, rng=rng())
    assert one.cells.counts(one.draws).max() < 90
    assert other.cells.counts(other.draws)[3] == 100


def test_tables():
    pa = pytest.importorskip("pyarrow")
    release = smoothed_histogram(data(r=2), 2.0, (0, 1), draws=60, bins=9)
    table = release.table(names=["age", "income"])
    assert isinstance(table, pa.Table)
    assert table.schema == pa.schema([("age", pa.float64()), ("income", pa.float64())])
    assert np.array_equal(np.stack([c.to_numpy() for c in table.columns], axis=1), release.draws)
    assert release.table(7, rng=rng())["x2"].to_pylist() == release.sample(7, rng=rng())[:, 1].tolist()
    density = perturbed_histogram(data(), 1.0, (0, 1), bins=9)
    assert density.table(5).column_names == ["x"]
    with pytest.raises(ParameterError, match="draws must be the number of records to draw"):
        density.table()
    for names in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(ParameterError, match="names must be 2 different names"):
            release.table(names=names)
    for wrong in ("ab", [1, 2], 5):
        with pytest.raises(ParameterTypeError, match="names must be a sequence of str"):
            release.table(names=wrong)


@pytest.mark.long
def test_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert perturbed_histogram(data(), 1.0, (0, 1), bins=9).plot(axes) is axes
    release = smoothed_histogram(data(), 2.0, (0, 1), draws=60, bins=9)
    drawn = release.plot()
    values = drawn.patches[-1].get_data().values
    assert np.allclose(values, release.density((np.arange(9) + 0.5) / 9))
    drawn.figure.savefig(tmp_path / "a.svg")
    assert perturbed_histogram(data(), 1.0, (0, 1), bins=5000).plot().lines
    image = dirichlet_histogram(data(r=2), 2.0, draws=60, bins=(3, 4), bounds=((0, 0), (1, 2))).plot()
    assert (image.get_xlabel(), image.get_ylabel()) == ("x1", "x2")
    assert image.figure.axes[1].get_ylabel() == "density released, ε = 2"
    assert image.get_images()[0].get_extent() == [0, 1, 0, 2]
    with pytest.raises(ParameterError, match="plot must have a release with at most 2 coordinates, got 3"):
        perturbed_histogram(data(r=3), 1.0, (0, 1), bins=8).plot()


@pytest.mark.parametrize(("module", "method", "extra"), [("pyarrow", "table", "batch"), ("matplotlib.figure", "plot", "report")])
def test_extras_that_are_not_installed_are_named(monkeypatch, module, method, extra):
    release = smoothed_histogram(data(), 2.0, (0, 1), draws=60, bins=9)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=rf"pip install '\S*\[{extra}\]'"):
        getattr(release, method)()


WRONG = [
    ({"epsilon": 0.0}, ParameterError, "epsilon must be positive"),
    ({"epsilon": math.inf}, ParameterError, "epsilon must be positive"),
    ({"epsilon": True}, ParameterTypeError, "epsilon must be a real number"),
    ({"bins": 0}, ParameterError, r"bins must be in \[1"),
    ({"bins": 2.0}, ParameterTypeError, "bins must be an integer"),
    ({"bins": "12"}, ParameterTypeError, "bins must be an integer"),
    ({"bins": (2, 2)}, ParameterError, "bins must be the number of cells, or one number of bins for each of 1 axes, and no edges"),
    ({"bins": 2**26 + 1}, ParameterError, r"bins must be in \[1, 67108864\]"),
    ({"bounds": (1.0, 0.0)}, ParameterError, r"bounds must have low \+ 2\^-900 ≤ high on axis 0, got low=1.0 and high=0.0"),
    ({"bounds": (0.0, 0.0)}, ParameterError, "bounds must have low"),
    ({"bounds": (0.0, math.nan)}, ParameterError, "bounds must be in"),
    ({"bounds": (0.0, math.inf)}, ParameterError, "bounds must be in"),
    ({"bounds": 3.0}, ParameterTypeError, "bounds must be a pair"),
    ({"bounds": None}, ParameterTypeError, "bounds must be a pair"),
    ({"bounds": "01"}, ParameterTypeError, "bounds must be a pair"),
    ({"bounds": (0, 1, 2)}, ParameterTypeError, "bounds must be a pair"),
    ({"bounds": (0, "a")}, ParameterTypeError, "bounds must be a real number"),
    ({"bounds": [(0, 0), (1, 1)]}, ParameterError, r"bounds must be \(low, high\), each a number, got"),
    ({"bounds": [(0, 0), (1,)]}, ParameterError, r"bounds must be \(low, high\), each a number, got"),
    ({"bounds": (1e15, 1e15 + 1), "bins": 100}, ParameterError, "must leave cells of 4096 units in the last place"),
    ({"threads": 0}, ParameterError, r"threads must be in \[1, 4096\]"),
    ({"rng": np.random.default_rng(1)}, ParameterTypeError, "rng must be None"),
    ({"x": np.zeros((3, 2, 2))}, ParameterError, r"records must have shape \(n,\) or \(n, r\)"),
    ({"x": []}, ParameterError, "records must hold at least one record"),
    ({"x": np.zeros((4, 0))}, ParameterError, "records must have a number of columns"),
    ({"x": np.zeros((4, 17))}, ParameterError, "records must have a number of columns"),
    ({"x": ["a"]}, ParameterTypeError, "records must have one of the dtypes"),
    ({"x": np.ma.masked_array([0.5], [True])}, ParameterTypeError, "records must not be a masked array"),
    ({"x": [0.1, math.nan, 0.3]}, DataError, "records must not hold NaN; the number at index 1 is NaN"),
]


@each_release
@pytest.mark.parametrize(("change", "error", "message"), WRONG, ids=shown)
def test_what_is_refused(make, change, error, message):
    arguments: dict = {"x": data(), "epsilon": 1.0, "bins": 4, **change}
    with pytest.raises(error, match=message):
        make(**arguments)


def test_privacy_losses_that_no_noise_or_prior_has():
    with pytest.raises(ParameterError, match="epsilon must give a noise scale"):
        perturbed_histogram(data(), 1e-300, (0, 1), bins=4)
    with pytest.raises(ParameterError, match="epsilon must give a noise scale"):
        perturbed_histogram(data(), 1e-20, (0, 1), bins=4, noise="discrete_laplace")
    with pytest.raises(ParameterError, match="epsilon must give a prior"):
        dirichlet_histogram(data(), 1e-300, (0, 1), draws=10, bins=4)
    assert smoothed_histogram(data(), 1e-300, (0, 1), draws=10, bins=4).draws.shape == (10,)  # uniform draws


def test_the_first_nan_is_named_whatever_thread_finds_one():
    x = np.full((900_000, 2), 0.5)
    x[[700_001, 300_000, 899_999], [1, 0, 0]] = np.nan
    for threads in (1, 2, 4):
        with pytest.raises(DataError, match=r"the number at index \(300000, 0\) is NaN"):
            perturbed_histogram(x, 1.0, (0, 1), bins=4, threads=threads)


def test_parameters_are_refused_before_data_are_looked_at():
    x = [0.1, math.nan]
    for make in (
        lambda: smoothed_histogram(x, 1.0, (0, 1), draws=0, bins=4),
        lambda: smoothed_histogram(x, 1.0, (0, 1), draws=10, bins=4, smoothing=0.0),
        lambda: smoothed_histogram(x, 1.0, (0, 1), draws=10, bins=4, smoothing=1.5),
        lambda: smoothed_histogram(x, 1.0, (0, 1), draws=10, bins=4, smoothing=1e-3),
        lambda: dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=4, prior=1e-3),
        lambda: dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=4, prior=[9.0, 9.0, 9.0, 0.1]),
        lambda: dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=4, prior=[9.0, 9.0]),
        lambda: dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=4, prior=[9.0, 9.0, math.nan, 9.0]),
        lambda: dirichlet_histogram(x, 1.0, (0, 1), draws=10, bins=4, prior=math.inf),
        lambda: perturbed_histogram(x, 1.0, (0, 1), bins=4, noise="gaussian"),
    ):
        with pytest.raises(ParameterError, match=r"draws must|smoothing must|prior|noise must"):
            make()
    with pytest.raises(ParameterError, match=r"bins must be the 2-th power .*, such as 9, or a tuple"):
        perturbed_histogram(np.zeros((3, 2)), 1.0, (0, 1), bins=8)
    with pytest.raises(ParameterTypeError, match=r"bins must be an integer, the number of cells, .* and no edges"):
        perturbed_histogram(x, 1.0, (0, 1), bins=np.linspace(0, 1, 5))


def test_points_that_are_asked_for():
    release = perturbed_histogram(data(r=2), 1.0, (0, 1), bins=4)
    assert isinstance(release.density([0.5, 0.5]), float)
    assert release.density(np.zeros((0, 2))).shape == (0,)
    assert release.cdf(np.zeros((3, 5, 2))).shape == (3, 5)
    for wrong in (0.5, [0.5], np.zeros((2, 3))):
        with pytest.raises(ParameterError, match=r"x must have shape \(..., 2\)"):
            release.density(wrong)
    with pytest.raises(ParameterError, match="x must not hold NaN; point 1 does"):
        release.cdf([[0.5, 0.5], [0.5, math.nan]])
    with pytest.raises(ParameterError, match="draws must be in"):
        release.sample(-1)
    with pytest.raises(ParameterTypeError, match="draws must be an integer"):
        release.sample(2.0)
    with pytest.raises(ParameterError, match=r"threads must be in \[1, 4096\], got 0"):
        release.sample(2, threads=0)


@pytest.mark.parametrize("bounds", [(0, 1), ((0, -1), (3, 1))])
def test_synthetic_records_do_not_depend_on_threads(bounds):
    release = perturbed_histogram(data(r=2), 1.0, bins=(6, 5), bounds=bounds)
    points = release.sample(300_001, rng=rng(), threads=1)
    assert np.array_equal(points, release.sample(300_001, rng=rng(), threads=3))
    assert np.array_equal(points[:70_000], release.sample(70_000, rng=rng(), threads=2))


def test_counts_that_are_refused():
    with pytest.raises(ParameterTypeError, match="counts must hold integers, got float64"):
        perturbed_masses([0.5], 1.0)
    for wrong in (np.int64(3), np.zeros((3, 0), np.int64)):
        with pytest.raises(ParameterError, match=r"counts must have shape"):
            perturbed_masses(wrong, 1.0)
    with pytest.raises(ParameterError, match="sensitivity must be positive"):
        perturbed_masses([1, 2], 1.0, sensitivity=0.0)


@pytest.mark.parametrize("noise", ["laplace", "discrete_laplace"])
def test_intervals_cover_the_true_counts(noise):
    release = perturbed_histogram(data(5000), 0.3, (0, 1), bins=2000, noise=noise, rng=rng())
    true = release.cells.counts(data(5000))
    assert release.noise == noise
    assert release.scale == pytest.approx(2 / 0.3)
    assert release.stderr == pytest.approx(np.std(release.noisy_counts - true), rel=0.1)
    for confidence in (0.5, 0.95):
        low, high = release.interval(confidence).T
        covered = np.mean((low <= true) & (true <= high))
        # a share of 2,000 independent cells, five standard deviations below
        assert covered > confidence - 5 * math.sqrt(confidence * (1 - confidence) / 2000)
        assert covered < confidence + 0.08
    narrow, wide = (np.diff(release.interval(c)) for c in (0.5, 0.95))
    assert (narrow < wide).all()
    with pytest.raises(ParameterError, match=r"confidence must be in"):
        release.interval(1.0)


@each_release
def test_a_notebook_shows_the_guarantee_and_the_density(make):
    shown_line, shown_plane = make(data(), bins=4)._repr_html_(), make(data(r=2), bins=4)._repr_html_()
    for html in (shown_line, shown_plane):
        assert "ε = 1, for data sets that differ by the value of one record" in html
        assert "[0, 1]" in html
        assert "500" in html
    assert "<svg" in shown_line
    assert "<svg" not in shown_plane


def test_bounds_are_needed_and_are_low_ends_then_high_ends():
    with pytest.raises(TypeError, match="bounds"):
        perturbed_histogram(data(), 1.0, bins=4)
    box = perturbed_histogram(data(r=2), 1.0, ((0, 10), (5, 20)), bins=4).box
    assert (box.low, box.high) == ((0.0, 10.0), (5.0, 20.0))
    with pytest.raises(ParameterError, match=r"on axis 0, got low=0\.0 and high=0\.0: give the low ends of all coordinates first"):
        perturbed_histogram(data(r=2), 1.0, ((0, 5), (0, 20)), bins=4)
    with pytest.raises(ParameterError, match="each a number or a sequence of 2 numbers, one for each coordinate"):
        perturbed_histogram(data(r=2), 1.0, ((0, 5, 7), 20), bins=4)
    for bounds in ([0, 5], np.array([0.0, 5.0]), (0, [5, 5]), np.array([[0, 0], [5, 5]])):
        assert Box.of(bounds, 2) == Box((0.0, 0.0), (5.0, 5.0))
    assert Box.of(((0, 1, 2), 5)).dimension == 3


def test_the_public_names_alone_are_shown():
    from dpcore import distributions

    assert dir(distributions) == sorted(distributions.__all__)
