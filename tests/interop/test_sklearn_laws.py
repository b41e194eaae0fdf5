"""What estimators for scikit-learn release: the counts and sums of neighbours, the law of the noise, and how cells are read."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("sklearn", reason="pip install '.[sklearn]'")

from sklearn.base import clone

from dpcore import DataError, ParameterError, ParameterTypeError, accounting
from dpcore.inference import covariance, linear_regression
from dpcore.interop import sklearn as private
from dpcore.interop._seeds import stream_of
from dpcore.interop.sklearn import (
    LocalRandomizer,
    PrivateCovariance,
    PrivateHistogramDensity,
    PrivateLinearRegression,
    PrivateNaiveBayes,
    PrivatePCA,
)
from dpcore.interop.sklearn._linear import clipped_rows
from dpcore.interop.sklearn._local import part_of
from support.kernels import Law
from support.laws import ERROR_RATE, count, integers_law, p_value
from support.versions import only_tested

only_tested(private.PEER)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "interop" / "sklearn.md"
NO_NOISE = 2e5
"""An ε at which discrete noise is 0, but with a probability of e^-1000 and less."""
RECORDS = [(a, b, label) for a in (-5.0, 0.25, 0.9) for b in (0.0, 7.0) for label in ("no", "yes")]


def naive_bayes(epsilon: float, delta: float = 0.0, seed: int | None = None) -> PrivateNaiveBayes:
    return PrivateNaiveBayes(epsilon, delta, bounds=(0, 1), bins=2, classes=["no", "yes"], random_state=seed)


def counted(model: PrivateNaiveBayes, records: Any) -> Any:
    """All counts that a fit releases, in one vector."""
    x, y = np.array([row[:2] for row in records]), [row[2] for row in records]
    model.fit(x, y)
    return np.concatenate([model.class_count_, *(each.ravel() for each in model.feature_count_)])


# Naive Bayes


def test_counts_are_those_of_the_clamped_records() -> None:
    found = counted(naive_bayes(NO_NOISE), [(-5.0, 0.4, "no"), (0.5, 7.0, "yes"), (0.9, 0.1, "yes")])
    assert found.tolist() == [1, 2, *[1, 0, 0, 2], *[1, 0, 1, 1]]


def test_counts_of_neighbours_are_no_further_apart_than_the_noise_allows() -> None:
    """Every pair of values of one record, beside others: the ℓ1 norm against the scale, the ℓ2 norm against the deviation."""
    rest = RECORDS[:3]
    exact = {record: counted(naive_bayes(NO_NOISE), [*rest, record]) for record in RECORDS}
    epsilon, delta = 0.7, 1e-5
    pure, normal = naive_bayes(epsilon), naive_bayes(epsilon, delta)
    counted(pure, RECORDS)
    counted(normal, RECORDS)
    moved = [np.abs(exact[a] - exact[b]) for a, b in itertools.combinations(RECORDS, 2)]
    assert max(m.sum() for m in moved) / pure.estimate_.scale <= epsilon
    assert max(m.sum() for m in moved) == 6  # all of it is used: two for each feature, and two for the classes
    assert accounting.gaussian_delta(epsilon, normal.estimate_.scale, max(math.sqrt((m**2).sum()) for m in moved)) <= delta
    assert 4 / pure.estimate_.scale < epsilon < 6 / (0.9 * pure.estimate_.scale)


@pytest.mark.parametrize("factor", [1.0, 2 / 3])
def test_noise_of_counts_has_its_law(factor: float) -> None:
    """A noise that forgets the table of the classes, of scale 4/ε, is found out."""
    exact = counted(naive_bayes(NO_NOISE), RECORDS)
    drawn = np.concatenate([counted(naive_bayes(0.9, seed=i), RECORDS) - exact for i in range(600)])
    law = Law("discrete_laplace", factor * 6 / 0.9, 1.0)
    found = p_value(count(drawn, 60), integers_law(law, 60))
    assert found > ERROR_RATE if factor == 1 else found < ERROR_RATE


def test_shares_and_predictions_follow_from_counts() -> None:
    plain = np.random.default_rng(4)
    x = plain.uniform(0, 1, (3000, 2))
    y = np.where(x[:, 0] + plain.normal(0, 0.1, 3000) > 0.5, "yes", "no")
    model = PrivateNaiveBayes(NO_NOISE, bounds=(0, 1), bins=[8, 4], classes=["yes", "no"], smoothing=2.0).fit(x, y)
    assert model.classes_.tolist() == ["no", "yes"]
    joint = []
    for label in model.classes_:
        rows = x[y == label]
        score = math.log((len(rows) + 2) / (3000 + 4))
        for j, bins in enumerate((8, 4)):
            cells = np.histogram(rows[:, j], bins, (0, 1))[0] + 2.0
            score = score + np.log(cells / cells.sum())[np.minimum((x[:, j] * bins).astype(int), bins - 1)]
        joint.append(score)
    expected = np.exp(joint) / np.exp(joint).sum(axis=0)
    assert np.allclose(model.predict_proba(x), expected.T)
    assert (model.predict(x) == y).mean() > 0.85
    noisy = PrivateNaiveBayes(0.1, bounds=(0, 1), classes=["no", "yes"]).fit(x[:20], y[:20])
    assert np.isfinite(noisy.predict_log_proba(x)).all()  # also where all counts of a class were cut to 0


# Sums of products


def test_the_regression_is_that_of_the_library_on_clipped_rows() -> None:
    plain = np.random.default_rng(4)
    x, y = plain.normal(0, 1, (400, 3)), plain.normal(0, 1, 400)
    model = PrivateLinearRegression(1.0, 1e-5, x_radius=1.5, y_radius=2.0, random_state=3).fit(x, y)
    rows = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True) / 1.5, 1.0)
    joined = np.column_stack([rows, np.full(400, 1.5)])
    again = linear_regression(joined, y, 1.0, 1e-5, x_radius=1.5 * math.sqrt(2), y_radius=2.0, rng=stream_of(3))
    assert np.allclose(model.coef_, again.value[:3], rtol=1e-3)
    assert np.allclose(model.intercept_, again.value[3] * 1.5, rtol=1e-3)
    assert np.allclose(model.predict(x), x @ model.coef_ + model.intercept_)
    plain_model = PrivateLinearRegression(1.0, 1e-5, x_radius=1.5, y_radius=2.0, fit_intercept=False, random_state=3).fit(x, y)
    assert np.array_equal(plain_model.coef_, linear_regression(x, y, 1.0, 1e-5, x_radius=1.5, y_radius=2.0, rng=stream_of(3)).value)
    assert plain_model.intercept_ == 0.0


def test_rows_are_clipped_one_by_one_and_none_is_longer_than_the_radius() -> None:
    rows = np.random.default_rng(1).normal(0, 1, (500, 4)) * np.geomspace(1e-300, 1e300, 500)[:, None]
    for radius in (2.0**-300, 1.0, 2.0**300):
        found = clipped_rows(rows, radius)
        scaled = found / radius  # squares of radii beyond 2^500 are infinite
        assert (np.sqrt((scaled**2).sum(axis=1)) <= 1 + 1e-14).all()
        assert np.array_equal(np.vstack([clipped_rows(row[None], radius) for row in rows]), found)
        with np.errstate(all="ignore"):  # rows of 1e300 are too far
            short = np.linalg.norm(rows / radius, axis=1) <= 1
        assert np.allclose(found[short], rows[short], rtol=1e-15)


def test_covariance_and_components_are_those_of_the_library() -> None:
    x = np.random.default_rng(4).normal(0, 1, (2000, 3)) @ np.diag([3.0, 1.0, 0.1])
    expected = covariance(x, 1.0, 1e-5, 8.0, center=0.5, rng=stream_of(3))
    model = PrivateCovariance(1.0, 1e-5, radius=8.0, center=0.5, random_state=3).fit(x)
    assert np.array_equal(model.covariance_, expected.value)
    assert np.array_equal(model.location_, expected.mean)
    away = x[:5] - model.location_
    assert np.allclose(model.mahalanobis(x[:5]), np.diag(away @ np.linalg.pinv(model.covariance_) @ away.T))
    parts = PrivatePCA(2, epsilon=1.0, delta=1e-5, radius=8.0, center=0.5, random_state=3).fit(x)
    values, vectors = np.linalg.eigh(expected.value)
    assert np.allclose(parts.explained_variance_, values[:0:-1])
    assert np.allclose(np.abs(parts.components_ @ vectors[:, :0:-1]), np.eye(2), atol=1e-9)
    assert (parts.components_[np.arange(2), np.abs(parts.components_).argmax(axis=1)] > 0).all()
    assert np.allclose(parts.transform(x), (x - expected.mean) @ parts.components_.T)
    assert np.allclose(parts.transform(parts.inverse_transform(parts.transform(x))), parts.transform(x))


# Density


def test_the_density_is_that_of_noisy_counts() -> None:
    x = np.random.default_rng(4).uniform(0, 1, (4000, 2))
    model = PrivateHistogramDensity(1.0, bounds=([0, 0], [1, 2]), bins=[4, 2], noise="discrete_laplace").fit(x)
    release = model.estimate_
    assert release.scale == 2.0
    assert release.noisy_counts.dtype == np.int64
    assert np.allclose(np.exp(model.score_samples(x)), release.density(x))
    assert model.score(x) == pytest.approx(model.score_samples(x).sum())
    assert model.score_samples([[5.0, 5.0]]).tolist() == [-math.inf]
    assert model.sample(7).shape == (7, 2)
    assert model.sample(0).shape == (0, 2)
    line = PrivateHistogramDensity(1.0, bounds=(0, 1)).fit(x[:, :1])
    assert line.sample(5, random_state=1).tolist() == line.sample(5, random_state=1).tolist()


# The local randomiser


@pytest.mark.parametrize("d", [1, 2, 3, 7, 100])
def test_parts_of_the_budget_are_the_largest_that_add_up(d: int) -> None:
    for epsilon in (0.1, 1.0, 0.3, 7.0, 1e-5):
        part = part_of(epsilon, d)
        assert Fraction(part) * d <= Fraction(epsilon) < Fraction(math.nextafter(math.nextafter(part, math.inf), math.inf)) * d


def test_local_laplace_noise_has_the_scale_of_all_columns() -> None:
    x = np.tile([5.0, -50.0], (40_000, 1))
    reports = LocalRandomizer(2.0, [0, -10], [10, 10], random_state=5).fit(x).transform(x)
    for column, middle, scale in zip(reports.T, (5.0, -10.0), (2 * 10 / 2.0, 2 * 20 / 2.0), strict=True):
        assert stats.kstest((column - middle) / scale, "laplace").pvalue > ERROR_RATE
        assert stats.kstest((column - middle) / (scale / 2), "laplace").pvalue < ERROR_RATE  # as if each column had all of ε


def test_local_gaussian_noise_suffices_for_all_columns() -> None:
    x = np.tile([5.0, -50.0], (40_000, 1))
    reports = LocalRandomizer(2.0, [0, -10], [10, 10], delta=1e-5, method="gaussian", random_state=5).fit(x).transform(x)
    deviations = reports.std(axis=0)
    # the two farthest records in units of the noise
    apart = math.hypot(10 / deviations[0], 20 / deviations[1])
    assert accounting.gaussian_delta(2.0, 1.0, apart) == pytest.approx(1e-5, rel=0.3)
    for column, middle, width in zip(reports.T, (5.0, -10.0), (10, 20), strict=True):
        sigma = accounting.analytic_gaussian_scale(2.0, 1e-5, math.sqrt(2)) * width
        assert stats.kstest((column - middle) / sigma, "norm").pvalue > ERROR_RATE


def test_local_categories_are_answered_with_their_part_of_the_budget() -> None:
    x = np.array([["a", "x"]] * 30_000, object)
    model = LocalRandomizer(2.0, method="kary", categories=[["a", "b", "c"], ["x", "y"]], random_state=5)
    reports = model.fit(x).transform(x)
    for column, labels in zip(reports.T, (["a", "b", "c"], ["x", "y"]), strict=True):
        seen = np.array([(column == label).sum() for label in labels])
        true = math.e / (math.e + len(labels) - 1)  # ε/2 a column
        assert p_value(seen, np.array([true, *[(1 - true) / (len(labels) - 1)] * (len(labels) - 1)])) > ERROR_RATE
    with pytest.raises(DataError, match="column 1 of X must hold labels that were declared, and the one at index 2"):
        model.transform(np.array([["a", "x"], ["b", "y"], ["c", "secret"]], object))
    kept = clone(model).set_params(categories=["a", "b", "x", "y"], unknown="b").fit(x).transform(np.array([["q", None]], object))
    assert set(kept[0]) <= {"a", "b", "x", "y"}
    numbers = LocalRandomizer(3.0, method="kary", categories=[1, 2]).fit([[1], [2]])
    assert numbers.transform([[1], [2]]).dtype.kind == "i"


def test_each_transform_draws_anew_and_is_paid_for(tmp_path: Path) -> None:
    x = np.zeros((10, 2))
    ledger = accounting.Ledger.create(tmp_path / "l", epsilon=2.0)
    model = LocalRandomizer(1.0, -1, 1, ledger=ledger).fit(x)
    assert ledger.spent.epsilon == 0
    first, second = model.transform(x), model.transform(x)
    assert not (first == second).any()
    assert ledger.spent.epsilon == 2.0
    assert (model.privacy_.epsilon, model.secure_) == (1.0, True)


# How cells are read

SECRET = "31337.5 is what nobody may see"
CELLS: list[Any] = [0.5, 3, True, np.float32(0.1), np.int8(-3), Fraction(1, 3), Decimal("0.7"), 10**400, -(10**400), 2**70]


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_a_cell_is_read_alone_as_in_company(cell: Any) -> None:
    def reports(x: Any) -> float:
        return float(LocalRandomizer(1e9, -10, 10, random_state=1).fit(np.zeros((1, 2))).transform(x)[0, 0])

    try:
        expected = min(max(float(cell), -10.0), 10.0)
    except OverflowError:
        with pytest.raises(DataError, match=r"index \(0, 0\)"):
            reports([[cell, 1.0]])
        return
    for other in (1.0, 5, Fraction(1, 7), Decimal("1e9")):
        for x in ([[cell, other]], np.array([[cell, other]], object), [[cell, 0.0], [other, other]]):
            assert reports(x) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        ([[0.0, 1.0], [0.0, SECRET]], ParameterTypeError, r"neither a string nor another object.*index \(1, 1\)"),
        ([[0.0, None]], ParameterTypeError, r"index \(0, 1\)"),
        (np.array([[0.0, SECRET]]), ParameterTypeError, "X must hold numbers, got str"),
        ([[0.0, 1.0], [0.0, float("nan")]], DataError, r"index \(1, 1\) is NaN or infinite"),
        ([[0.0, 1.0], [0.0]], ParameterError, "X must have shape"),
        ([[0.0, [31337.5]]], ParameterError, "X must have shape|neither a string"),
        (np.array([[0, 1]], "datetime64[s]"), ParameterTypeError, "X must hold numbers, got datetime64"),
        (np.ma.masked_array([[0.0, 1.0]], [[0, 1]]), ParameterTypeError, "masked"),
        ([[0.0, Decimal("sNaN")]], DataError, r"index \(0, 1\)"),
        (SECRET, ParameterError, "X must"),
        (31337.5, ParameterError, "X must have shape"),
    ],
)
def test_messages_name_places_and_no_values(x: Any, error: type, message: str) -> None:
    models = [
        PrivateCovariance(1.0, 1e-6, radius=1.0),
        PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[0, 1]),
        LocalRandomizer(1.0, 0, 1),
    ]
    n = len(x) if hasattr(x, "__len__") else 1
    for model in models:
        with pytest.raises((ParameterError, ParameterTypeError, DataError), match=message) as caught:
            model.fit(x, [0] * n)
        assert "31337" not in "".join(map(str, (caught.value, caught.value.__cause__, caught.value.__context__)))
    assert isinstance(caught.value, error) or message.endswith("string")


@pytest.mark.parametrize("y", [["no", SECRET], [0.0, 31337.5], [None, 3], [{}, "no"], ["no", float("nan")]])
def test_labels_that_were_not_declared_are_refused_by_their_index(y: Any) -> None:
    with pytest.raises(DataError, match=r"y must hold labels that were declared, and the one at index [01] was not") as caught:
        naive_bayes(1.0).fit([[0.0, 1.0]] * 2, y)
    assert "31337" not in str(caught.value)


def test_predictions_are_made_of_what_was_released() -> None:
    """Records leave no trace: a fitted model has none of its training data."""
    x = np.full((100, 2), 0.123456789)
    for model in (
        naive_bayes(1.0),
        PrivateCovariance(1.0, 1e-6, radius=1.0),
        PrivateLinearRegression(1.0, 1e-6, x_radius=1.0, y_radius=1.0),
    ):
        fitted = model.fit(x, ["no"] * 100 if isinstance(model, PrivateNaiveBayes) else np.full(100, 0.123456789))
        assert np.float64(0.123456789).tobytes() not in pickle.dumps(fitted)


# The page


@pytest.mark.long
@pytest.mark.source_tree
def test_programs_of_the_page_run() -> None:
    programs = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    said = []
    for program in programs:
        done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False, timeout=200)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.splitlines())
    before, after, paid, local, checks = said
    assert before == ["score 1.0"]
    assert after[0] == "score 1.0"
    assert after[1].count("epsilon=0.5") == 2
    assert paid[:2] == ["True", "spent 2.5"]
    assert "'PrivateNaiveBayes.fit' needs epsilon 0.5" in paid[2]
    assert local == ["(50000, 3)"]
    assert checks[-1] == "True"
