"""diffprivlib's tools and models with dpcore beneath: the same answers without noise, the same budgets, and noise with its exact law."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from diffprivlib import models, tools
from diffprivlib.accountant import BudgetAccountant
from diffprivlib.utils import BudgetError, PrivacyLeakWarning

from dpcore.interop import diffprivlib as backend
from support.laws import ERROR_RATE, p_value

TABLE = np.random.default_rng(5).normal(3, 2, (60, 4, 3))
FUNCTIONS = ["mean", "nanmean", "var", "nanvar", "std", "nanstd", "sum", "nansum"]
AXES = [0, 1, -1, (0, 2), (1, -1), None]
BOUNDS = (0.0, 6.0)


@pytest.fixture
def served() -> Iterator[None]:
    """dpcore beneath diffprivlib, arrays included."""
    with backend.install(vectorise=True):
        yield


def both(call: Any) -> tuple[Any, Any]:
    """What a call gives without dpcore and with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        native = call()
        with backend.install(vectorise=True):
            return native, call()


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_statistics_without_noise_are_those_of_diffprivlib(name: str, axis: Any, keepdims: bool) -> None:
    native, found = both(lambda: getattr(tools, name)(TABLE, epsilon=math.inf, bounds=BOUNDS, axis=axis, keepdims=keepdims))
    assert np.shape(native) == np.shape(found)
    assert np.asarray(native).dtype == np.asarray(found).dtype
    assert np.allclose(native, found, rtol=1e-12)


@pytest.mark.parametrize("options", [{"dtype": np.float32}, {"dtype": int}, {"bounds": ([0, 1, 2, 3], [4, 5, 6, 7])}, {}], ids=str)
@pytest.mark.parametrize(
    "table", [TABLE[:, :, 0], TABLE[:, :, 0].astype(np.float32), TABLE[:, :, 0].astype(int), TABLE[:, :, 0] > 3, TABLE[:, :, 0].tolist()],
    ids=["float64", "float32", "int64", "bool", "list"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["mean", "var", "sum"])
def test_dtypes_and_bounds_by_column(name: str, table: Any, options: dict[str, Any]) -> None:
    native, found = both(lambda: getattr(tools, name)(table, epsilon=math.inf, axis=0, **{"bounds": BOUNDS, **options}))
    of_integers = name == "sum" and isinstance(table, list) and options.get("dtype") is int  # whatever the cells of the list are
    assert found.dtype == (np.int64 if of_integers else native.dtype)
    if options.get("dtype") is int and name != "sum":  # the integers' own mean and variance, which are not integers
        kept = np.clip(np.asarray(table, float), *BOUNDS).astype(int)
        native = getattr(np, name)(kept, axis=0).astype(native.dtype)
    assert np.allclose(native, found, rtol=1e-6)


def test_nan_and_counts() -> None:
    holes = TABLE[:, :, 0].copy()
    holes[3, 1] = np.nan
    for name in ("mean", "nanmean", "nanvar", "nansum", "var"):
        native, found = both(lambda name=name: getattr(tools, name)(holes, epsilon=math.inf, bounds=BOUNDS, axis=0))
        assert np.allclose(native, found, equal_nan=True)
        with backend.install(vectorise=True):
            noisy = getattr(tools, name)(holes, epsilon=1.0, bounds=BOUNDS, axis=0)
        assert np.isnan(noisy).tolist() == np.isnan(native).tolist()
    native, found = both(lambda: tools.count_nonzero(TABLE > 3, epsilon=math.inf, axis=(0, 1)))
    assert native.tolist() == found.tolist()
    assert native.dtype == found.dtype


@pytest.mark.parametrize("name", [*FUNCTIONS, "median"])
def test_noise_follows_the_random_state(name: str, served: None) -> None:
    def call(seed: Any) -> Any:
        return getattr(tools, name)(TABLE, epsilon=5.0, bounds=BOUNDS, axis=(0, 1), random_state=seed)

    assert np.array_equal(call(3), call(3))
    assert not np.array_equal(call(3), call(4))
    assert not np.array_equal(call(None), call(None))
    state = np.random.RandomState(3)
    assert not np.array_equal(call(state), call(state))


def test_budgets_are_spent_as_before() -> None:
    for limit in (math.inf, 1.0, 0.4):
        spent = []
        for serves in (False, True):
            account = BudgetAccountant(limit, 0.0 if limit < 1 else 1.0)
            if serves:
                backend.install(vectorise=True)
            try:
                tools.mean(TABLE, epsilon=0.5, bounds=BOUNDS, axis=0, accountant=account)
                tools.histogram(TABLE, epsilon=0.1, range=BOUNDS, accountant=account)
                tools.var(TABLE, epsilon=0.3, bounds=BOUNDS, axis=0, accountant=account)
            except BudgetError as error:
                spent.append(("exceeded", type(error)))
            finally:
                backend.uninstall()
            spent.append(account.spent_budget)
        assert spent[: len(spent) // 2] == spent[len(spent) // 2 :]


def test_wrong_arguments_are_refused_as_before() -> None:
    for call in (
        lambda: tools.mean(TABLE, epsilon=-1, bounds=BOUNDS, axis=0),
        lambda: tools.mean(TABLE, epsilon=1, bounds=(6, 0), axis=0),
        lambda: tools.mean(TABLE, epsilon=1, bounds=BOUNDS, axis=7),
        lambda: tools.sum(TABLE, epsilon=1, bounds=([0], [1, 2]), axis=0),
        lambda: tools.mean(TABLE, epsilon=1, bounds=BOUNDS, axis=0, accountant="none"),
        lambda: tools.histogram(TABLE, epsilon=0.0, range=BOUNDS),
        lambda: tools.histogram(TABLE, range=BOUNDS, bins=-1),
    ):
        raised = []
        for serves in (False, True):
            if serves:
                backend.install(vectorise=True)
            try:
                with pytest.raises((ValueError, TypeError)) as found:
                    call()
                raised.append((type(found.value), str(found.value)))
            finally:
                backend.uninstall()
        assert raised[0] == raised[1]


HISTOGRAMS: dict[str, Any] = {
    "histogram": lambda **o: tools.histogram(TABLE, range=BOUNDS, **o),
    "histogram, bins": lambda **o: tools.histogram(TABLE, bins=[0, 1, 4, 5], range=BOUNDS, **o),
    "histogram, weights": lambda **o: tools.histogram(TABLE, range=BOUNDS, weights=np.abs(TABLE), **o),
    "histogramdd": lambda **o: tools.histogramdd(TABLE[:, 0], bins=3, range=[BOUNDS] * 3, **o),
    "histogram2d": lambda **o: tools.histogram2d(TABLE[:, 0, 0], TABLE[:, 0, 1], bins=[3, 4], range=[BOUNDS] * 2, **o),
}


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_without_noise_are_those_of_diffprivlib(name: str, density: bool) -> None:
    native, found = both(lambda: HISTOGRAMS[name](epsilon=math.inf, density=density))
    assert np.array_equal(native[0], found[0])
    assert native[0].dtype == found[0].dtype
    for edges, same in zip(native[1:], found[1:], strict=True):
        assert np.array_equal(edges, same)


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_histograms_with_noise(name: str, served: None) -> None:
    call = HISTOGRAMS[name]
    assert np.array_equal(call(epsilon=0.5, random_state=1)[0], call(epsilon=0.5, random_state=1)[0])
    assert not np.array_equal(call(epsilon=0.01)[0], call(epsilon=0.01)[0])
    counts = call(epsilon=0.5)[0]
    assert np.all(counts >= 0)
    assert np.array_equal(counts, np.round(counts))
    assert np.isfinite(call(epsilon=0.5, density=True)[0]).all()


def test_a_missing_range_warns_as_before(served: None) -> None:
    with pytest.warns(PrivacyLeakWarning, match="Range parameter has not been specified"):
        tools.histogram(TABLE)
    with pytest.warns(PrivacyLeakWarning, match="or has missing elements"):
        tools.histogramdd(TABLE[:, 0])
    with pytest.warns(PrivacyLeakWarning, match="Bounds have not been specified"):
        tools.mean(TABLE, axis=0)


def test_the_noise_of_a_histogram_has_the_law_of_its_mechanism(served: None) -> None:
    epsilon, bins = 0.3, 20_000
    values = np.repeat(np.arange(bins) + 0.5, 40)
    counts, _ = tools.histogram(values, epsilon=epsilon, bins=bins, range=(0, bins), random_state=1)
    seen = np.bincount(np.clip(counts - 40, -40, 40) + 40, minlength=81)

    def law(rate: float) -> Any:
        r, z = math.exp(-rate), np.arange(-40, 41)
        masses = (1 - r) / (1 + r) * r ** np.abs(z)
        masses[[0, -1]] = r**40 / (1 + r)
        return masses

    assert p_value(seen, law(epsilon)) > ERROR_RATE
    assert p_value(seen, law(epsilon / 1.1)) < ERROR_RATE


def test_the_noise_along_an_axis_has_the_law_of_its_mechanism(served: None) -> None:
    cells = 20_000
    table = np.full((10, cells), 3.0)
    found = tools.mean(table, epsilon=float(cells), bounds=BOUNDS, axis=0, random_state=1)
    edges = np.linspace(0.5, 5.5, 30) + 1e-6
    seen = np.bincount(np.searchsorted(edges, found), minlength=31)

    def law(scale: float) -> Any:
        below = np.where(edges < 3, 0.5 * np.exp((edges - 3) / scale), 1 - 0.5 * np.exp((3 - edges) / scale))
        return np.diff(np.concatenate([[0], below, [1]]))

    assert p_value(seen, law(0.6)) > ERROR_RATE
    assert p_value(seen, law(0.5)) < ERROR_RATE


X = np.random.default_rng(1).uniform(0, 1, (400, 3)) + np.repeat([[0.0], [1.0]], 200, axis=0)
Y = np.repeat([0, 1], 200)
MODELS: dict[str, Any] = {
    "GaussianNB": lambda **o: models.GaussianNB(epsilon=20.0, bounds=(0, 2), **o),
    "LogisticRegression": lambda **o: models.LogisticRegression(epsilon=20.0, data_norm=4.0, **o),
    "RandomForestClassifier": lambda **o: models.RandomForestClassifier(
        n_estimators=5, epsilon=20.0, bounds=(0, 2), classes=[0, 1], **o
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning:scipy", "ignore:scipy.optimize")
@pytest.mark.parametrize("name", MODELS)
def test_classifiers_run_on_top(name: str, served: None) -> None:
    assert MODELS[name](random_state=1).fit(X, Y).score(X, Y) > 0.8
    same = [MODELS[name](random_state=2).fit(X, Y).predict_proba(X[::40]) for _ in range(2)]
    assert np.array_equal(*same)


def test_regression_clustering_and_components_run_on_top(served: None) -> None:
    target = X @ [1.0, 2.0, 3.0]
    line = models.LinearRegression(epsilon=200.0, bounds_X=(0, 2), bounds_y=(0, 12), random_state=1).fit(X.copy(), target)
    assert line.score(X, target) > 0.7
    centres = models.KMeans(2, epsilon=50.0, bounds=(0, 2), random_state=1).fit(X.copy()).cluster_centers_
    assert np.abs(np.sort(centres[:, 0]) - [0.5, 1.5]).max() < 0.4
    assert models.PCA(2, epsilon=20.0, bounds=(0, 2), data_norm=4.0, random_state=1).fit(X.copy()).components_.shape == (2, 3)
    assert models.StandardScaler(epsilon=20.0, bounds=(0, 2), random_state=1).fit(X).mean_ == pytest.approx([1.0] * 3, abs=0.2)


def test_forests_run_in_several_processes(served: None) -> None:
    forest = models.RandomForestClassifier(n_estimators=4, epsilon=20.0, bounds=(0, 2), classes=[0, 1], n_jobs=2, random_state=1)
    assert set(forest.fit(X, Y).predict(X[::20])) <= {0, 1}
