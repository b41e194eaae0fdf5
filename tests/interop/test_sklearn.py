"""Estimators for scikit-learn: its own checks, and that a budget is spent by each fit, once, and by nothing else."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="pip install '.[sklearn]'")

from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from dpcore import BudgetError, DataError, ParameterError, ParameterTypeError
from dpcore.accounting import Ledger
from dpcore.interop import sklearn as private
from dpcore.interop.numpy import SecureRandomState
from dpcore.interop.sklearn import (
    LocalRandomizer,
    PrivateCovariance,
    PrivateHistogramDensity,
    PrivateLinearRegression,
    PrivateNaiveBayes,
    PrivatePCA,
    expected_failed_checks,
)
from support.versions import only_tested

only_tested(private.PEER)

MODELS: dict[str, Any] = {
    "regression": lambda **more: PrivateLinearRegression(1.0, 1e-6, x_radius=4.0, y_radius=4.0, **more),
    "without an intercept": lambda **more: PrivateLinearRegression(1.0, 1e-6, x_radius=4.0, y_radius=4.0, fit_intercept=False, **more),
    "covariance": lambda **more: PrivateCovariance(1.0, 1e-6, radius=4.0, **more),
    "components": lambda **more: PrivatePCA(epsilon=1.0, delta=1e-6, radius=4.0, **more),
    "density": lambda **more: PrivateHistogramDensity(1.0, bounds=(-3, 3), bins=2, **more),
    "naive Bayes": lambda **more: PrivateNaiveBayes(1.0, bounds=(-3, 3), bins=4, classes="public", **more),
    "naive Bayes with Gaussian noise": lambda **more: PrivateNaiveBayes(1.0, 1e-6, bounds=(-3, 3), classes="public", **more),
}
LOCAL: dict[str, Any] = {
    "Laplace noise": LocalRandomizer(1.0, -3, 3),
    "Gaussian noise": LocalRandomizer(1.0, -3, 3, delta=1e-6, method="gaussian"),
    "categories": LocalRandomizer(1.0, method="kary", categories=[0, 1, 2], unknown=0),
}


def data(n=60, d=3):
    plain = np.random.default_rng(1)
    x = plain.uniform(-1, 1, (n, d))
    return x, (x[:, 0] > 0).astype(int)


def statuses(model: Any, **more: Any) -> dict[str, list[str]]:
    """Names of the checks of scikit-learn by how they ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(model, on_fail=None, on_skip=None, **more)
    result: dict[str, list[str]] = {}
    for each in found:
        result.setdefault(each["status"], []).append(each["check_name"])
    return result


@pytest.mark.parametrize("name", [*MODELS, *LOCAL])
def test_the_checks_of_scikit_learn_pass_but_for_those_that_are_listed(name):
    model = MODELS[name](refit=True) if name in MODELS else LOCAL[name]
    expected = expected_failed_checks(model)
    found = statuses(model, expected_failed_checks=expected)
    assert found.get("failed", []) == []
    assert set(found.get("xfail", [])) == set(expected)
    assert len(found["passed"]) >= 35


def test_without_leave_to_refit_those_checks_fail_that_fit_twice():
    for name, make in MODELS.items():
        model = make()
        found = statuses(model)
        assert set(found["failed"]) == set(expected_failed_checks(model)), name
        assert all(expected_failed_checks(model).values())


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_spends_once_and_a_second_one_is_refused(name):
    x, y = data()
    model = MODELS[name]()
    model.fit(x, y)
    assert model.privacy_ == model.spent_
    assert (model.n_fits_, model.secure_, model.privacy_.epsilon) == (1, True, 1.0)
    before = dict(vars(model))
    with pytest.raises(BudgetError, match=r"has spent epsilon=1\.0.*and another fit would spend epsilon=1\.0.*refit=True"):
        model.fit(x, y)
    assert vars(model) == before
    for method in ("predict", "predict_proba", "transform", "score_samples", "mahalanobis"):
        if hasattr(model, method):
            getattr(model, method)(x)
    assert model.n_fits_ == 1
    assert clone(model).fit(x, y).spent_ == model.privacy_


@pytest.mark.parametrize("name", MODELS)
def test_further_fits_add_up(name):
    x, y = data()
    model = MODELS[name](refit=True).fit(x, y)
    model.set_params(epsilon=0.1).fit(x, y)
    model.set_params(epsilon=0.2).fit(x, y)
    assert model.spent_.epsilon == 1.3  # as they are written: 1.0 + 0.1 + 0.2
    assert (model.privacy_.epsilon, model.n_fits_) == (0.2, 3)
    assert model.spent_.delta == pytest.approx(3 * model.privacy_.delta)
    again = pickle.loads(pickle.dumps(model))
    assert (again.spent_, again.n_fits_) == (copy.deepcopy(model).spent_, 3) == (model.spent_, 3)
    assert not hasattr(clone(model), "spent_")


@pytest.mark.parametrize("given", ["path", "text", "ledger"])
def test_a_ledger_pays_for_every_fit_of_every_clone(given, tmp_path):
    x, y = data()
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0)
    model = PrivateNaiveBayes(
        0.5, bounds=(-1, 1), classes=[0, 1], ledger={"path": ledger.path, "text": str(ledger.path), "ledger": ledger}[given]
    )
    cross_val_score(model, x, y, cv=5)
    assert ledger.spent.epsilon == 2.5
    pickle.loads(pickle.dumps(model)).fit(x, y)
    assert ledger.spent.epsilon == 3.0
    before = copy.deepcopy(model)
    with pytest.raises(BudgetError, match=r"'PrivateNaiveBayes\.fit' needs epsilon 0\.5"):
        model.fit(x, y)
    assert not hasattr(model, "n_fits_")
    assert not hasattr(before, "n_fits_")
    entries = list(ledger.entries())
    assert {entry.what for entry in entries} == {"PrivateNaiveBayes.fit"}
    assert entries[0].queries[0]["features"] == 3


def test_a_ledger_allows_another_fit_and_keeps_what_a_failed_one_cost(tmp_path):
    x, y = data()
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    for name in ("regression", "covariance", "components", "density", "naive Bayes"):
        model = MODELS[name](ledger=ledger)
        spent = ledger.spent.epsilon
        holed = x.copy()
        holed[7, 1] = np.nan
        with pytest.raises(DataError, match=r"X must hold finite numbers, and the one at index \(7, 1\)"):
            model.fit(holed, y)
        assert ledger.spent.epsilon == spent + 1
        assert [entry.state for entry in ledger.entries()][-1] == "failed"
        assert not hasattr(model, "n_fits_")
        with pytest.raises(ParameterError, match=r"one length|at least one record"):
            model.fit(x[:0], y[1:])
        assert ledger.spent.epsilon == spent + 1  # a shape is public
    with pytest.raises(BudgetError):
        model.fit(x, y)


def test_a_seed_is_not_secure_and_a_ledger_refuses_it(tmp_path):
    x, y = data()
    ledger = Ledger.create(tmp_path / "l", epsilon=3.0)
    one, two = (PrivateNaiveBayes(1.0, bounds=(-1, 1), classes=[0, 1], random_state=7).fit(x, y) for _ in range(2))
    assert not one.secure_
    assert np.array_equal(one.class_count_, two.class_count_)
    with pytest.raises(ParameterError, match=r"test key|secure"):
        clone(one).set_params(ledger=ledger).fit(x, y)
    state = SecureRandomState()
    secure = PrivateNaiveBayes(1.0, bounds=(-1, 1), classes=[0, 1], random_state=state, ledger=ledger).fit(x, y)
    assert secure.secure_
    assert clone(secure).random_state is not state
    assert not np.array_equal(secure.feature_count_[0], clone(secure).fit(x, y).feature_count_[0])


def test_pipelines_and_searches():
    x, y = data(300)
    chain = make_pipeline(
        PrivatePCA(2, epsilon=1.0, delta=1e-6, radius=2.0), PrivateLinearRegression(1.0, 1e-6, x_radius=2.0, y_radius=1.0)
    )
    assert chain.fit(x, y).predict(x).shape == (300,)
    with pytest.raises(BudgetError):
        chain.fit(x, y)
    search = GridSearchCV(clone(chain), {"privatepca__n_components": [1, 2]}, cv=2).fit(x, y)
    assert search.best_estimator_[0].n_fits_ == 1
    assert list(clone(chain)[0].set_output(transform="default").fit(x).get_feature_names_out()) == ["privatepca0", "privatepca1"]


def test_frames_keep_their_names():
    pandas = pytest.importorskip("pandas")
    x, _ = data()
    frame = pandas.DataFrame(x, columns=["a", "b", "c"], index=np.arange(60) + 5)
    model = LocalRandomizer(1.0, -1, 1).set_output(transform="pandas").fit(frame)
    reports = model.transform(frame)
    assert list(reports.columns) == ["a", "b", "c"]
    assert list(reports.index) == list(frame.index)
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["b", "a", "c"]])
    polars = pytest.importorskip("polars")
    fitted = MODELS["covariance"]().fit(polars.DataFrame(frame.to_dict("list")))
    assert list(getattr(fitted, "feature_names_in_", "abc")) == ["a", "b", "c"]  # older releases of scikit-learn know no names of polars


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (PrivateLinearRegression(), ParameterError, "epsilon must be given"),
        (PrivateLinearRegression(1.0, 1e-6), ParameterError, "x_radius must be given"),
        (PrivateLinearRegression(1.0, 1e-6, x_radius=1.0), ParameterError, "y_radius must be given"),
        (PrivateLinearRegression(1.0, 0.0, x_radius=1.0, y_radius=1.0), ParameterError, "delta must be in"),
        (PrivateLinearRegression(-1.0, 0.1, x_radius=1.0, y_radius=1.0), ParameterError, "epsilon must be positive"),
        (PrivateLinearRegression(1.0, 0.1, x_radius=1.0, y_radius=1.0, fit_intercept="no"), ParameterTypeError, "fit_intercept"),
        (PrivateLinearRegression(1.0, 0.1, x_radius=1.0, y_radius=1.0, refit=1), ParameterTypeError, "refit must be True or False"),
        (PrivateLinearRegression(1.0, 0.1, x_radius=1.0, y_radius=1.0, beta=0.0), ParameterError, "beta"),
        (PrivateLinearRegression(1.0, 0.1, x_radius=1.0, y_radius=1.0, ledger=5), ParameterTypeError, "ledger must be None, a path"),
        (PrivateLinearRegression(1.0, 0.1, x_radius=1.0, y_radius=1.0, random_state=1.5), ParameterTypeError, "random_state"),
        (PrivateCovariance(1.0, 1e-6), ParameterError, "radius must be given"),
        (PrivatePCA(4, epsilon=1.0, delta=1e-6, radius=1.0), ParameterError, r"n_components must be in \[1, 3\]"),
        (PrivatePCA(1.5, epsilon=1.0, delta=1e-6, radius=1.0), ParameterTypeError, "n_components"),
        (PrivateHistogramDensity(1.0), ParameterError, "bounds must be given"),
        (PrivateHistogramDensity(1.0, bounds=(0, 1), bins=0), ParameterError, "bins"),
        (PrivateHistogramDensity(1.0, bounds=(0, 1), bins=[2, 2]), ParameterError, "bins must be one value, or have one for each of the 3"),
        (PrivateHistogramDensity(1.0, bounds=(0, 1), bins=1000), ParameterError, r"at most 2\^26 cells"),
        (PrivateHistogramDensity(1.0, bounds=(1, 0)), ParameterError, "bounds"),
        (PrivateHistogramDensity(1.0, bounds="auto"), ParameterTypeError, "bounds must be a pair"),
        (PrivateHistogramDensity(1.0, bounds=(0, 1), noise="normal"), ParameterError, "noise"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1)), ParameterError, "classes must be given"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes="all"), ParameterError, "classes must be one of 'public'"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[]), ParameterTypeError, "classes must be 'public' or a sequence"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[0, "a"]), ParameterTypeError, "labels of one type"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[0, 0]), ParameterError, "distinct"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[1, 2]), DataError, "y must hold labels that were declared, and the one at index"),
        (PrivateNaiveBayes(1.0, 1.0, bounds=(0, 1), classes=[0, 1]), ParameterError, "delta"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), classes=[0, 1], smoothing=0.0), ParameterError, "smoothing"),
        (LocalRandomizer(), ParameterError, "epsilon must be given"),
        (LocalRandomizer(1.0), ParameterError, "lower must be given"),
        (LocalRandomizer(1.0, 0, [1, 1]), ParameterError, "upper must be one value, or have one for each"),
        (LocalRandomizer(1.0, 1, 0), ParameterError, "lower"),
        (LocalRandomizer(1.0, 0, 1, delta=0.1), ParameterError, "delta must be 0 for method='laplace'"),
        (LocalRandomizer(1.0, 0, 1, method="gaussian"), ParameterError, r"delta must be in \(0, 1\) for method='gaussian'"),
        (LocalRandomizer(1.0, 0, 1, method="round"), ParameterError, "method"),
        (LocalRandomizer(1.0, 0, 1, categories=["a", "b"]), ParameterError, "categories and unknown must be left out"),
        (LocalRandomizer(1.0, method="kary"), ParameterError, "categories must be given"),
        (LocalRandomizer(1.0, 0, method="kary", categories=["a", "b"]), ParameterError, "lower and upper must be left out"),
        (LocalRandomizer(1.0, method="kary", categories=["a"]), ParameterError, "at least two"),
        (LocalRandomizer(1.0, method="kary", categories=[["a", "b"]]), ParameterError, "one list for each of the 3"),
        (LocalRandomizer(1.0, method="kary", categories=["a", 1]), ParameterTypeError, "of one type"),
        (LocalRandomizer(1.0, method="kary", categories="ab"), ParameterTypeError, "categories must be a list"),
        (LocalRandomizer(1.0, method="kary", categories=["a", "b"], unknown="c"), ParameterError, "unknown must be one of the categories"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_by_the_fit(model, error, message):
    x, y = data()
    with pytest.raises(error, match=message):
        model.fit(x, y)
    assert not hasattr(model, "n_fits_")
    assert not hasattr(model, "privacy_")


def test_the_module_without_scikit_learn_names_the_pip_line():
    program = "import sys; sys.modules['sklearn'] = None; from dpcore.interop import sklearn as private; private.PrivatePCA"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "[sklearn]'" in done.stderr.splitlines()[-1]
