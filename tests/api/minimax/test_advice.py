"""Advice: a table of estimators with proved risks, and its words, plots and refusals."""

from __future__ import annotations

import math

import pytest

from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.minimax import BinarySearchEstimator, Model, advise, best_linear, losses
from support.minimax_models import model


@pytest.fixture(scope="module")
def advice():
    return advise(model("moment 2"), 2.0, 500, outputs=7)


def test_options_are_sorted_and_lie_above_the_bound(advice):
    risks = [option.risk for option in advice.options]
    assert risks == sorted(risks)
    assert advice.lower.value <= risks[0]
    assert advice.best is advice.options[0]
    assert advice.ratio == pytest.approx(risks[0] / advice.lower.value)
    assert 1 <= advice.ratio < 3
    assert advice.left_out == {}
    names = [option.name for option in advice.options]
    assert set(names) == {
        "linear, any channel",
        "linear, three outcomes",
        "linear, one bit",
        "binary search of tests, one bit",
        "middle of the range of θ",
    }
    search = next(option for option in advice.options if "search" in option.name)
    assert isinstance(search.estimator, BinarySearchEstimator)
    assert search.risk == pytest.approx(search.estimator.risk_bound())


def test_the_table_names_every_option_and_the_bound(advice):
    text, page = str(advice), advice._repr_html_()
    for option in advice.options:
        assert option.name in text
        assert option.name in page
        assert f"{option.risk:.4g}" in text
    assert text.splitlines()[-1].startswith("no private method is better than")
    assert f"{advice.lower.value:.4g}" in text
    assert max(map(len, text.splitlines())) < 80


def test_plots(advice, tmp_path):
    figure = pytest.importorskip("matplotlib.figure")
    path = advice.plot(tmp_path / "advice.svg")
    assert path.read_text("utf-8").startswith("<?xml")
    axes = figure.Figure().add_subplot()
    assert advice.plot(axes) is axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [option.name for option in advice.options]


def test_what_cannot_be_made_is_left_out_with_a_reason():
    constant = advise(Model([3.0, 3.0]), 1.0, 10)
    assert constant.best.name == "middle of the range of θ"
    assert constant.best.risk == pytest.approx(0.0, abs=1e-20)
    assert all("constant" in why for why in constant.left_out.values())
    assert set(constant.left_out) == {"linear, any channel", "linear, one bit", "binary search of tests, one bit"}
    assert math.isfinite(len(str(constant)))


@pytest.mark.long
def test_other_losses_and_steps():
    seen = []
    found = advise(model("two points"), 1.0, 60, loss="absolute", outputs=3, progress=lambda done, total: seen.append((done, total)))
    squared = best_linear(model("two points"), 1.0, n=60, outputs=3)
    assert found.lower.value <= found.best.risk <= math.sqrt(squared.risk_bound()) * (1 + 1e-6)
    assert seen[-1] == (4, 4)
    assert any("2-ary response" in option.name for option in found.options)


def test_a_loss_beyond_float64_is_infinite_and_no_error():
    found = advise(Model([-1e12, 1e12]), 1.0, 10, loss=losses.power(64), outputs=3)
    assert found.best.risk == math.inf
    assert found.lower.value < math.inf


def test_refusals():
    for outputs in (1, 1002, 2.5, "many", True):
        with pytest.raises((ParameterError, ParameterTypeError), match="outputs"):
            advise(model("two points"), 1.0, 10, outputs=outputs)
    with pytest.raises(ParameterError, match=r"\bn\b"):
        advise(model("two points"), 1.0, 2**41)
    with pytest.raises(ParameterError, match="epsilon"):
        advise(model("two points"), -1.0, 10)
    with pytest.raises(ParameterError, match=r"\bn\b"):
        advise(model("two points"), 1.0, 0)
