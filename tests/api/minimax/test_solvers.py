"""What happens where HiGHS gives up: other ways are tried, and without an answer nothing is given out."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from dpcore.errors import DpcoreError
from dpcore.minimax import optimal_channel
from dpcore.minimax.programs import linear_programs
from dpcore.minimax.programs.linear_programs import InfeasibleError, LinearProgram
from support.minimax_models import model

WAYS = [("highs", True), ("highs-ds", False), ("highs-ipm", True)]
"""Method and presolve, in the order in which they are tried."""


@pytest.fixture
def giving_up(monkeypatch):
    """A function that makes the first so many ways give up, and returns a list that fills with the ways tried."""
    real = linear_programs.linprog

    def install(count: int) -> list[tuple[str, bool]]:
        tried: list[tuple[str, bool]] = []

        def linprog(cost, *, method, options, **rows):
            way = (method, options["presolve"])
            tried.append(way)
            if way in WAYS[:count]:
                wrong = SimpleNamespace(marginals=np.full(1, np.nan))
                return SimpleNamespace(status=4, message="numerical difficulties", x=None, ineqlin=wrong, eqlin=wrong)
            return real(cost, method=method, options=options, **rows)

        monkeypatch.setattr(linear_programs, "linprog", linprog)
        return tried

    return install


def program(most: float) -> LinearProgram:
    """Minimize −x − y where x + y ≤ most and x ≤ 1."""
    rows = sp.csr_array([[1.0, 1.0], [1.0, 0.0]])
    return LinearProgram(np.array([-1.0, -1.0]), rows, np.array([most, 1.0]), sp.csr_array((0, 2)), np.zeros(0), np.zeros(2))


@pytest.mark.parametrize("count", range(len(WAYS)))
def test_the_next_way_is_tried_where_one_gives_up(giving_up, count):
    tried = giving_up(count)
    point, duals = program(3.0).solved()
    assert tried == WAYS[: count + 1]
    assert point.sum() == pytest.approx(3.0, rel=1e-9)
    assert duals == pytest.approx([1.0, 0.0], abs=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize("count", range(1, len(WAYS)))
@pytest.mark.parametrize("name", ["moment 2", "hull"])
def test_what_another_way_finds_has_a_certificate(giving_up, name, count):
    expected = optimal_channel(model(name), 1.0, n=10_000).certificate
    tried = giving_up(count)
    found = optimal_channel(model(name), 1.0, n=10_000).certificate
    assert set(tried) == set(WAYS[: count + 1])
    assert found.holds
    assert found.modulus == pytest.approx(expected.modulus, rel=1e-6)
    assert found.attained == pytest.approx(expected.attained, rel=1e-6)


def test_an_answer_of_another_way_may_be_that_there_is_none(giving_up):
    tried = giving_up(1)
    with pytest.raises(InfeasibleError):
        program(-1.0).solved()
    assert tried == WAYS[:2]


def test_if_all_ways_give_up_the_reason_is_told(giving_up):
    tried = giving_up(len(WAYS))
    for solve in (program(3.0).solved, program(3.0).refined):
        with pytest.raises(DpcoreError, match="the linear program was not solved: numerical difficulties; scale f") as caught:
            solve()
        assert not isinstance(caught.value, InfeasibleError)
    assert tried == WAYS * 2
    with pytest.raises(DpcoreError, match="numerical difficulties"):
        optimal_channel(model("moment 2"), 1.0, n=10_000)
