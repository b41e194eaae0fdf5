"""The sections on distributions of data bases: they hold, and a wrong guarantee or a wrong matrix does not."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.blackwell import Experiment
from dpcore.reproduce import Setting, distributional
from dpcore.reproduce.distributional import (
    NEIGHBOURS,
    contagious,
    count_under,
    distributions,
    independent,
    least_sum,
    mechanisms_on_data_bases,
    profiles_of_distributions,
    regions_inside,
)

TITLE = "Mechanisms as experiments (2014), Theorem 2, distributions: a title"


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("section", [profiles_of_distributions, regions_inside], ids=["Theorem 2", "Theorem 3"])
def test_all_checks_hold(section, seed):
    made = section(TITLE, Setting(seed=seed, quick=True))
    assert [check.claim for check in made.checks if not check.holds] == []
    assert {check.kind for check in made.checks} == {"identity"}


@pytest.mark.parametrize("law", [independent, contagious])
def test_distributions_sum_to_one_and_fix_their_record(law):
    drawn = distributions(law)
    assert np.allclose(drawn.sum(axis=1), 1, atol=1e-15)
    for row, (record, value) in zip(drawn, [(i, v) for i in range(3) for v in (0, 1)], strict=True):
        assert all(distributional.DATA_BASES[k][record] == value for k in np.flatnonzero(row))


def test_the_guarantee_of_single_data_bases_is_not_that_of_dependent_ones():
    """The twin: ε of the mechanism as the ε of drawn data bases."""
    response = mechanisms_on_data_bases()["responses"]
    assert least_sum(independent, response, 1.0) >= 1 - 1e-12
    assert least_sum(contagious, response, 1.0) < 0.7
    assert least_sum(contagious, response, 3.0) >= 1 - 1e-12


def test_another_order_of_data_bases_is_noticed(monkeypatch):
    """The twin: the columns of P_D in another order than the rows of P_M."""
    monkeypatch.setattr(distributional, "distributions", lambda law: np.roll(distributions(law), 1, axis=1))
    made = profiles_of_distributions(TITLE, Setting(quick=True))
    assert not all(check.holds for check in made.checks)


def test_an_exact_count_has_a_delta_that_falls_with_the_records():
    found = [count_under(records, 0.3).delta(0.5) for records in (2, 10, 100, 500)]
    assert found == sorted(found, reverse=True)
    assert found[-1] < 1e-3 < found[0]
    # for one data base of known records it has none below 1
    assert Experiment(np.eye(2)).delta(0.5) == 1.0
    assert distributions(independent).shape[0] == 2 * len(NEIGHBOURS)
