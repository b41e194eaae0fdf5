"""Fits that fail: what they spend, what they leave behind, and what they say."""

from __future__ import annotations

import inspect
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="pip install '.[sklearn]'")

from dpcore import BudgetError, DataError, ParameterError, ParameterTypeError
from dpcore.accounting import Ledger
from dpcore.interop import sklearn as private
from dpcore.interop.sklearn import (
    LocalRandomizer,
    PrivateCovariance,
    PrivateHistogramDensity,
    PrivateLinearRegression,
    PrivateNaiveBayes,
    PrivatePCA,
    _counts,
    _linear,
    _moments,
    _reading,
)
from support.versions import only_tested

only_tested(private.PEER)

X = np.random.default_rng(1).uniform(-1, 1, (60, 3))
Y = (X[:, 0] > 0).astype(int)
MODELS: dict[str, Any] = {
    "regression": lambda **more: PrivateLinearRegression(1.0, 1e-6, x_radius=4.0, y_radius=4.0, **more),
    "covariance": lambda **more: PrivateCovariance(1.0, 1e-6, radius=4.0, **more),
    "components": lambda **more: PrivatePCA(epsilon=1.0, delta=1e-6, radius=4.0, **more),
    "density": lambda **more: PrivateHistogramDensity(1.0, bounds=(-3, 3), bins=2, **more),
    "naive Bayes": lambda **more: PrivateNaiveBayes(1.0, bounds=(-3, 3), bins=4, classes=[0, 1], **more),
}
DRAWS = {
    "regression": (_linear, "linear_regression"),
    "covariance": (_moments, "covariance"),
    "components": (_moments, "covariance"),
    "density": (_counts, "perturbed_histogram"),
    "naive Bayes": (_counts, "_log_shares"),
}
"""What each fit calls when its cells are read."""


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_is_refused_changes_nothing(name):
    fitted, holed = MODELS[name]().fit(X, Y), X[:, :2].copy()
    before = dict(vars(fitted))
    with pytest.raises(BudgetError):
        fitted.fit(X[:, :2], Y)
    assert vars(fitted) == before
    holed[3, 1] = np.nan
    fitted.set_params(refit=True)
    before["refit"] = True
    with pytest.raises(DataError, match=r"index \(3, 1\)"):
        fitted.fit(holed, Y)
    assert vars(fitted) == before
    fresh = MODELS[name]()
    with pytest.raises(DataError):
        fresh.fit(holed, Y)
    assert vars(fresh) == fresh.get_params()


def test_names_of_columns_are_those_of_the_last_fit():
    pandas = pytest.importorskip("pandas")
    model = MODELS["covariance"](refit=True).fit(pandas.DataFrame(X, columns=["a", "b", "c"]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert not hasattr(model.fit(X[:, :2]), "feature_names_in_")
    assert model.n_features_in_ == 2


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_fails_after_its_noise_has_spent(name, monkeypatch):
    kept = MODELS[name](refit=True).fit(X, Y)
    before, model = dict(vars(kept)), MODELS[name]()

    def fails(*given, **named):
        raise MemoryError

    monkeypatch.setattr(*DRAWS[name], fails)
    for each in (model, kept):
        with pytest.raises(MemoryError):
            each.fit(X[:, :2], Y)
    assert (model.n_fits_, model.spent_.epsilon) == (1, 1.0)
    assert not hasattr(model, "privacy_")
    assert not hasattr(model, "n_features_in_")
    with pytest.raises(BudgetError, match=r"has spent epsilon=1\.0"):
        model.fit(X, Y)
    assert (kept.n_fits_, kept.spent_.epsilon) == (2, 2.0)
    assert {**vars(kept), "n_fits_": 1, "spent_": before["spent_"]} == before


@pytest.mark.parametrize(
    ("model", "x", "message"),
    [
        (PrivateCovariance(1.0, 1e-6, radius=1.0, center=[0.0, 1.0]), X, "center must be a number or have shape"),
        (PrivateCovariance(1.0, 1e-6, radius=1.0, center=np.nan), X, "center must be finite"),
        (PrivateCovariance(1e-300, 1e-300, radius=1.0), X, r"must give a noise scale below 2\*\*960"),
        (PrivatePCA(epsilon=1.0, delta=1e-6, radius=1.0), np.zeros((1, 4097)), "X must have at most 4096 columns, got 4097"),
        (PrivateLinearRegression(1.0, 1e-6, x_radius=1.0, y_radius=1.0), np.zeros((1, 4096)), "intercept must have at most 4096 columns"),
        (PrivateLinearRegression(1e-300, 1e-300, x_radius=1.0, y_radius=1.0), X, r"must give a noise scale below 2\*\*960"),
        (PrivateHistogramDensity(1e-300, bounds=(0, 1), bins=2, noise="discrete_laplace"), X, "epsilon must give a noise scale"),
        (PrivateHistogramDensity(1.0, bounds=(0, 1)), np.zeros((1, 17)), r"dimension must be in \[1, 16\], got 17"),
        (PrivateNaiveBayes(1.0, bounds=(0, 1), bins=2**24, classes=[0, 1]), X, r"at most 2\^26 counts, got 100663298"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_ledger_pays(model, x, message, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5)
    with pytest.raises(ParameterError, match=message):
        model.set_params(ledger=ledger).fit(x, Y[: len(x)])
    assert list(ledger.entries()) == []
    assert vars(model) == model.get_params()


@pytest.mark.parametrize("name", [*MODELS, "randomizer"])
def test_a_ledger_of_persons_is_refused(name, tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=5.0, delta=1e-5, unit="person")
    with pytest.raises(ParameterError, match="unit must be that of the ledger, 'person', got 'row'"):
        (LocalRandomizer(1.0, -1, 1, ledger=ledger).fit(X).transform(X) if name == "randomizer" else MODELS[name](ledger=ledger).fit(X, Y))
    assert list(ledger.entries()) == []


def test_of_two_threads_one_is_refused(monkeypatch):
    """Both have read their cells before one of them spends."""
    read, meeting, refused = _reading.numbers, threading.Barrier(2), []

    def numbers(*given):
        meeting.wait(20)
        return read(*given)

    monkeypatch.setattr(_reading, "numbers", numbers)
    model = MODELS["covariance"]()

    def fit():
        try:
            model.fit(X)
        except BudgetError as error:
            refused.append(error)

    threads = [threading.Thread(target=fit) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(refused) == 1
    assert (model.n_fits_, model.spent_.epsilon) == (1, 1.0)


def test_a_fitted_randomiser_keeps_its_parameters(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0)
    model = LocalRandomizer(1.0, -1, 1, ledger=ledger).fit(X)
    model.set_params(epsilon=5.0).transform(X)
    assert model.privacy_.epsilon == ledger.spent.epsilon == 1.0
    with pytest.raises(ParameterError, match="epsilon"):
        model.set_params(epsilon=-1.0).fit(X)
    model.transform(X)
    assert ledger.spent.epsilon == 2.0
    model.set_params(ledger=None, random_state=3).transform(X)
    assert not model.secure_


def test_a_transform_that_the_type_refuses_costs_nothing(tmp_path):
    ledger = Ledger.create(tmp_path / "l", epsilon=10.0)
    model = LocalRandomizer(1.0, -1, 1, ledger=ledger).fit(X)
    with pytest.raises(ParameterTypeError, match="X must hold numbers, got str"):
        model.transform(np.array([["a", "b", "c"]]))
    with pytest.raises(ValueError, match="2 features"):
        model.transform(X[:, :2])
    assert list(ledger.entries()) == []


def test_labels_of_classes_with_code_of_their_own_are_refused_by_their_index():
    class Label:
        def __lt__(self, other):
            raise ArithmeticError("31337")

        __hash__ = None

    for label in (Label(), np.array(["31337"]), float("nan")):
        y = np.empty(4, object)
        y[:] = [0, 1, 0, 1]
        y[2] = label
        with pytest.raises(DataError, match="the one at index 2 was not") as caught:
            MODELS["naive Bayes"]().fit(X[:4], y)
        assert "31337" not in str(caught.value)


def test_a_missing_cell_does_not_turn_one_label_into_another():
    """A frame reads integers beside a missing cell as floats, of which 2^53 and its successor are the same."""
    polars = pytest.importorskip("polars")
    with pytest.raises(ParameterError, match=r"below 2\^53"):
        LocalRandomizer(1.0, method="kary", categories=[1, 2**53]).fit([[1]])
    model = LocalRandomizer(100.0, method="kary", categories=[0, 2**53 - 1], unknown=0, random_state=1)
    for column in ([2**53 - 1, 2**53, 2**53 - 2], [2**53 - 1, 2**53, 2**53 - 2, None]):
        frame = polars.DataFrame({"a": column})
        assert model.fit(frame).transform(frame)[:3, 0].tolist() == [2**53 - 1, 0, 0]


def test_coordinates_are_not_quoted():
    model = MODELS["components"](n_components=2).fit(X)
    with pytest.raises(ParameterTypeError, match=r"the one at index \(0, 1\) is not") as caught:
        model.inverse_transform([[0.5, "31337 is a secret"]])
    assert "31337" not in str(caught.value)
    with pytest.raises(ParameterError, match="X must have 2 columns, one for each component, got 3"):
        model.inverse_transform(X)


def test_documentation_has_the_texts_that_estimators_share():
    for name in private.__all__[1:-1]:
        text = inspect.getdoc(getattr(private, name))
        assert "{" not in text.split("Notes")[0].replace('{"laplace"', "")
        assert "random_state : None, int, bytes or generator, optional\n    None draws from" in text
        assert name == "LocalRandomizer" or ("n_fits_ : int\n    How many" in text and "refit : bool, default False\n    Whether" in text)
