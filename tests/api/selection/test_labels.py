"""Selections return labels: those given, or the index of a Series."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpcore import ParameterError, ParameterTypeError, selection
from dpcore.testing import KeyedRandom
from support import series

try:
    import pandas as pd
except ModuleNotFoundError:
    pd = None

KINDS = [series.Series, *([pd.Series] if pd else [])]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__module__.split(".")[0])
SCORES = np.array([3.0, 9e6, 5.0, 7e6])
NAMES = ["ant", "bee", "fly", "wasp"]
ONE: dict[str, Any] = {
    "noisy_argmax": selection.noisy_argmax,
    "exponential_mechanism": selection.exponential_mechanism,
    "permute_and_flip": selection.permute_and_flip,
}
each_one = pytest.mark.parametrize("name", ONE)


def keyed() -> Any:
    return KeyedRandom(bytes(32)).at(5)


@each_one
@pytest.mark.parametrize(
    "labels", [NAMES, tuple(NAMES), np.array(NAMES), np.array(NAMES, object)], ids=lambda labels: type(labels).__name__
)
def test_the_label_of_the_chosen_score_is_returned(name: str, labels: Any) -> None:
    assert ONE[name](SCORES, 1.0, 1.0, labels=labels) == "bee"


@each_one
def test_labels_do_not_change_the_choice(name: str) -> None:
    near = np.linspace(0.0, 3.0, 50)
    for nonce in range(20):
        rng = KeyedRandom(bytes(32)).at(nonce)
        assert ONE[name](near, 1.0, 1.0, rng=rng, labels=[f"c{i}" for i in range(50)]) == f"c{ONE[name](near, 1.0, 1.0, rng=rng)}"


@each_one
@each_kind
def test_a_series_brings_its_index_as_labels(name: str, kind: Any) -> None:
    scores = kind(SCORES, index=NAMES)
    assert ONE[name](scores, 1.0, 1.0) == "bee"
    assert ONE[name](scores, 1.0, 1.0, labels=["a", "b", "c", "d"]) == "b"  # labels given come first


def test_several_draws_give_several_labels() -> None:
    drawn = selection.exponential_mechanism(SCORES, 30.0, 1.0, draws=3, labels=NAMES)
    assert drawn == ("bee", "bee", "bee")
    near = np.zeros(4)
    indices = selection.exponential_mechanism(near, 1.0, 1.0, draws=40, rng=keyed())
    assert selection.exponential_mechanism(near, 1.0, 1.0, draws=40, rng=keyed(), labels=NAMES) == tuple(NAMES[i] for i in indices)


@pytest.mark.parametrize(("method", "options"), [("gumbel", {}), ("peeling", {}), ("oneshot_laplace", {"epsilon": 0.1, "delta": 1e-6})])
def test_the_labels_of_top_s_follow_its_indices(method: Any, options: Any) -> None:
    chosen = selection.top_s(SCORES, options.pop("epsilon", 1.0), 1.0, s=2, method=method, labels=NAMES, values=True, **options)
    assert chosen.labels == tuple(NAMES[i] for i in chosen.indices)
    assert set(chosen.labels) == {"bee", "wasp"}
    assert selection.top_s(SCORES, 1.0, 1.0, s=2).labels is None


@each_kind
def test_labels_may_be_a_series_and_are_taken_by_position(kind: Any) -> None:
    labels = kind(np.array(NAMES), index=[3, 2, 1, 0])
    assert selection.noisy_argmax(SCORES, 1.0, 1.0, labels=labels) == "bee"
    assert selection.top_s(kind(SCORES, index=[3, 2, 1, 0]), 1.0, 1.0, s=2).labels == (2, 0)


@pytest.mark.skipif(pd is None, reason="needs pandas")
def test_labels_of_several_levels() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
    assert selection.noisy_argmax(pd.Series(SCORES, index=index), 1.0, 1.0) == ("a", 2)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (NAMES[:3], ParameterError, "labels must have one label for each of the 4 scores, got 3"),
        ([], ParameterError, "labels must have one label for each of the 4 scores, got 0"),
        ("abcd", ParameterTypeError, "labels must be a sequence with one label for each score, got str"),
        (dict.fromkeys(range(4)), ParameterTypeError, "labels must be a sequence with one label for each score, got dict"),
        (set(NAMES), ParameterTypeError, "labels must be a sequence .* got set"),
        (iter(NAMES), ParameterTypeError, "labels must be a sequence"),
        (np.zeros((4, 2)), ParameterTypeError, "labels must be a sequence"),
        (4, ParameterTypeError, "labels must be a sequence with one label for each score, got int"),
    ],
    ids=["too few", "none", "text", "dict", "set", "iterator", "matrix", "number"],
)
def test_wrong_labels_are_refused_before_anything_is_drawn(labels: Any, error: type[Exception], message: str) -> None:
    class Untouched:
        secure = True

        def position(self) -> Any:
            raise AssertionError("a position was taken")

    draws = (*ONE.values(), lambda scores, *rest, **options: selection.top_s(scores, *rest, s=2, **options))
    for draw in draws:
        with pytest.raises(error, match=message):
            draw(SCORES, 1.0, 1.0, labels=labels, rng=Untouched())


def test_a_notebook_shows_a_table_with_escaped_labels() -> None:
    chosen = selection.top_s(SCORES, 1.0, 1.0, s=2, labels=["a", "<b>", "c", "d&e"], values=True)
    page = chosen._repr_html_()
    assert "&lt;b&gt;" in page
    assert "d&amp;e" in page
    assert "<b>" not in page
    assert page.count("<tr>") == 3
    assert "label" not in selection.top_s(SCORES, 1.0, 1.0, s=2)._repr_html_()
