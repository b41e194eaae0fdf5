"""How far the chosen may be below the s-th best, against the exact laws of selections, and what a release says of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpcore import selection
from dpcore.errors import ParameterError
from dpcore.selection._plan import shortfall
from dpcore.testing import KeyedRandom
from support.laws import ERROR_RATE, binomial_p_value
from support.selection_laws import one_shot_law, peeling_law, units

LAWS = {
    "gumbel": lambda u, s: peeling_law("gumbel", u, s),
    "peeling": lambda u, s: peeling_law("laplace", u, s),
    "oneshot_laplace": lambda u, s: one_shot_law("laplace", u, s),
}
each_method = pytest.mark.parametrize("method", LAWS)


def miss(method, s, size, gap):
    """Probability that one is chosen that is `gap` below the s best, which are equal, as all others are: the worst scores."""
    law = LAWS[method](units([gap] * s + [0.0] * (size - s), 1.0), s)
    return float(sum(p for chosen, p in law.items() if max(chosen) >= s))


@pytest.mark.parametrize("beta", [0.1, 0.01, 1e-6])
@pytest.mark.parametrize(("s", "size"), [(1, 2), (1, 5), (2, 3), (2, 4), (3, 5)])
@each_method
def test_no_chosen_score_is_further_below_the_last_of_the_best(method, s, size, beta):
    bound = shortfall(method, 1.0, size, s, 1 - beta)
    assert miss(method, s, size, bound) <= beta * (1 + 1e-9)
    assert miss(method, s, size, bound / 2) > beta  # half of it would not do


@each_method
def test_the_bound_is_one_of_the_unit_of_the_scale_and_rounded_up(method):
    bound = shortfall(method, 1.0, 100, 5, 0.95)
    assert shortfall(method, 1e9, 100, 5, 0.95) == pytest.approx(1e9 * bound, rel=1e-12)
    tail = math.exp(-bound) if method == "gumbel" else (1 + bound / 2) * math.exp(-bound) / 2
    assert 0.05 * (1 - 1e-9) < 500 * tail <= 0.05
    assert shortfall(method, 1.0, 7, 7, 0.95) == 0.0


@each_method
def test_a_selection_says_it_of_its_own_parameters(method):
    keys = {"epsilon": 0.1, "sensitivity": 1.0, "s": 3, "delta": 1e-6, "method": method}
    chosen = selection.top_s(np.zeros(50), **keys)
    assert (chosen.method, chosen.candidates) == (method, 50)
    assert chosen.behind() == chosen.behind(0.95) == shortfall(method, chosen.scale, 50, 3, 0.95)
    assert chosen.behind(0.5) < chosen.behind(0.95) < chosen.behind(confidence=0.999)
    assert selection.top_s(np.zeros(3), **keys).behind() == 0.0
    with pytest.raises(ParameterError, match=r"confidence must be in \(0.0, 1.0\), got 95"):
        chosen.behind(95)


def test_drawn_selections_keep_to_it():
    """Error rate 10^-6. Where s is large the bound is loose, so the twin has a quarter of the gap."""
    scores, stream = np.repeat([28.0, 0.0], [2, 6]), KeyedRandom(bytes(32))
    draws = [selection.top_s(scores, 0.5, 1.0, s=2, rng=stream) for _ in range(3000)]
    bound = draws[0].behind(0.5)
    assert 27 < bound < 28
    wrong = sum(int(scores[each.indices].min() < 28.0) for each in draws)
    assert wrong < 1500
    assert binomial_p_value(wrong, len(draws), 0.5) < ERROR_RATE
    closer = sum(int(selection.top_s(scores / 4, 0.5, 1.0, s=2, rng=stream).indices.max() >= 2) for _ in range(3000))
    assert closer > 1500
    assert binomial_p_value(closer, 3000, 0.5) < ERROR_RATE


# In a release

CODES = {"codes": np.arange(600) ** 2 % 6, "sites": np.arange(600) % 2}


def asked(method="gumbel", relation="add_remove", **keys):
    """A table in Python, and what it is asked."""
    pytest.importorskip("duckdb")
    pa = pytest.importorskip("pyarrow")
    from dpcore import PrivateTable

    table = PrivateTable(pa.table(CODES), max_epsilon=1.0, max_delta=1e-3, relation=relation)
    return table, {"column": "codes", "s": 2, "k": 6, "epsilon": 0.1, "method": method} | keys


WAYS = ({}, {"method": "peeling", "delta": 1e-6}, {"method": "oneshot_laplace", "delta": 1e-6}, {"confidence": 0.5})


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("keys", WAYS, ids=str)
def test_answer_and_plan_say_the_rows_of_the_estimator(keys, values, grouped):
    from dpcore.jobs.commands import answers_text
    from dpcore.query.kinds import KINDS

    table, query = asked(**keys, values=values)
    table = table.group_by("sites", groups=[0, 1]) if grouped else table
    plan = table.plan("top", **query)
    answer = table.top(**query)
    scale = answer.document["noise"][0]["scale"]
    behind = math.floor(shortfall(query["method"], scale, 6, 2, query.get("confidence", 0.95)))
    assert 0 < behind == answer.behind == plan.document["queries"][0]["behind"]
    assert f"behind by at most {behind:,} rows" in repr(plan) or values
    (said,) = answers_text.notes({"unit": "row", "relation": "add_remove", "queries": [answer.document]})[1:]
    for text in (KINDS["top_s"].declared(answer.document), said):
        assert f"no chosen value is more than {behind:,} rows behind the value that is truly number 2" in text
        assert ("in each group for itself" in text) == grouped
    assert "behind" not in answer.document  # documents keep the keys of version 0.1: it follows from the others


def test_it_is_nothing_where_all_are_chosen_and_that_of_a_mode_for_one():
    table, query = asked()
    assert table.top(**query | {"s": 6}).behind == 0
    one, mode = table.top(**query | {"s": 1}), table.mode("codes", k=6, epsilon=0.1)
    assert mode.behind == mode.document["behind"] <= one.behind <= mode.behind + 4
    assert table.count(epsilon=0.1).behind is None
