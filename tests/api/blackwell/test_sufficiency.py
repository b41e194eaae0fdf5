"""Blackwell's order: each answer with its proof, on random pairs, on edges, and where the documents are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from dpcore.blackwell import Experiment, _deficiency, is_sufficient, sufficiency
from dpcore.errors import DpcoreError, ParameterError, ParameterTypeError
from support.experiments import check_answer, geometric_rows, random_rows

CONSTANT = Experiment([[1.0], [1.0]])
IDENTITY = Experiment(np.eye(2))


def random_pair(seed):
    """Pairs of every kind: garblings, garblings that miss a little, unrelated ones, with zeros, with more or fewer outcomes than states."""
    rng = np.random.default_rng(seed)
    n, m1, m2 = rng.integers(1, 7), rng.integers(1, 9), rng.integers(1, 9)
    concentration = rng.choice([0.05, 0.3, 1.0, 5.0])
    P = random_rows(rng, n, m1, concentration)
    if rng.random() < 0.3:
        P = np.where(P < 0.1, 0.0, P) + 1e-300 * np.isclose(P, P.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
    kind = seed % 4
    if kind == 3:
        return Experiment(P), Experiment(random_rows(rng, n, m2, concentration))
    Q = P @ random_rows(rng, m1, m2, rng.choice([0.05, 1.0]))
    if kind == 2:  # by so little that float64 alone would not tell
        Q = Q * (1 + rng.choice([1e-11, 1e-8, 1e-5, 1e-2]) * rng.uniform(-1, 1, Q.shape))
    return Experiment(P), Experiment(Q / Q.sum(axis=1, keepdims=True))


@pytest.mark.some(2)
@pytest.mark.parametrize("first", range(0, 200, 25))
def test_random_pairs_are_answered_with_a_proof(first):
    answers = []
    for seed in range(first, first + 25):
        P, Q = random_pair(seed)
        answer = is_sufficient(P, Q)
        check_answer(P, Q, answer)
        if seed % 4 < 2:
            assert answer.holds, seed
        answers.append(answer.holds)
    assert {True, False} == set(answers)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["garbling", "sparse", "wide", "geometric"])
def test_sixty_states_and_outcomes_with_a_channel(kind):
    rng = np.random.default_rng(0)
    P = geometric_rows(1.0, 60) if kind == "geometric" else random_rows(rng, 20 if kind == "wide" else 60, 60)
    Q = P @ random_rows(rng, 60, 60, 0.05 if kind == "sparse" else 1.0)
    P, Q = Experiment(P), Experiment(Q / Q.sum(axis=1, keepdims=True))
    answer = is_sufficient(P, Q)
    assert answer.holds
    check_answer(P, Q, answer)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["unrelated", "geometric"])
def test_sixty_states_and_outcomes_without_one(kind):
    rng = np.random.default_rng(1)
    if kind == "geometric":
        P, Q = Experiment(geometric_rows(0.5, 60)), Experiment(geometric_rows(1.0, 60))
    else:
        P, Q = Experiment(random_rows(rng, 60, 60)), Experiment(random_rows(rng, 60, 60))
    answer = is_sufficient(P, Q)
    assert not answer.holds
    problem = answer.problem
    assert problem.risk_P - problem.risk_Q == pytest.approx(answer.deficiency, abs=1e-9)
    assert P.bayes_risk(problem.loss, problem.prior) == pytest.approx(problem.risk_P, abs=1e-13)
    assert Q.bayes_risk(problem.loss, problem.prior) == pytest.approx(problem.risk_Q, abs=1e-13)


def test_the_deficiency_of_two_responses_is_known():
    """From a coin that tells the truth with chance p to one with chance q > p: the best garbling leaves it as it is."""
    for p, q in [(0.6, 0.9), (0.5, 1.0), (0.75, 0.76)]:
        answer = is_sufficient(Experiment([[p, 1 - p], [1 - p, p]]), Experiment([[q, 1 - q], [1 - q, q]]))
        assert not answer.holds
        assert answer.deficiency == pytest.approx(q - p, abs=1e-12)
        assert answer.problem.risk_P - answer.problem.risk_Q == pytest.approx(q - p, abs=1e-12)


def test_edges():
    assert is_sufficient(CONSTANT, CONSTANT).holds
    assert is_sufficient(IDENTITY, CONSTANT).T.tolist() == [[1.0], [1.0]]
    answer = is_sufficient(CONSTANT, IDENTITY)
    check_answer(CONSTANT, IDENTITY, answer)
    assert answer.deficiency == pytest.approx(0.5)
    single = Experiment([[0.25, 0.75]])
    channel = is_sufficient(Experiment([[1.0]]), single).T
    assert channel == pytest.approx(single.matrix)


def test_outcomes_that_never_happen():
    P, Q = Experiment([[0.5, 0.0, 0.5], [0.2, 0.0, 0.8]]), Experiment([[0.0, 1.0, 0.0, 0.0], [0.0, 0.7, 0.3, 0.0]])
    forth, back = is_sufficient(P, Q), is_sufficient(Q, P)
    check_answer(P, Q, forth)
    check_answer(Q, P, back)
    same = is_sufficient(P, P.garble([[0, 0, 1, 0], [0, 0, 1, 0], [0, 1, 0, 0]]))
    assert same.holds
    assert same.T[:, [0, 3]].tolist() == [[0, 0]] * 3


def test_sufficiency_is_a_preorder():
    rng = np.random.default_rng(3)
    P = Experiment(random_rows(rng, 4, 6))
    Q = P.garble(random_rows(rng, 6, 5))
    R = Q.garble(random_rows(rng, 5, 4))
    assert is_sufficient(P, P).holds
    assert is_sufficient(P, R).holds
    both = is_sufficient(P, Q).T @ is_sufficient(Q, R).T
    assert P.matrix @ both == pytest.approx(R.matrix, abs=1e-8)
    assert not is_sufficient(R, P).holds


def test_a_wrong_certificate_is_not_given():
    """The exact check is what stands between a solver's mistake and the caller."""
    rng = np.random.default_rng(4)
    P = random_rows(rng, 3, 4)
    Q = P @ random_rows(rng, 4, 3)
    for _ in range(20):
        assert sufficiency.separating_problem(P, Q / Q.sum(axis=1, keepdims=True), rng.random((3, 3))) is None
    equal = np.ones((2, 2)) / 2
    assert sufficiency.separating_problem(equal, equal, np.eye(2)) is None


def test_bounds_of_the_exact_risk_hold_it():
    rng = np.random.default_rng(5)
    from support.experiments import exact_bayes_risk

    for n, m, k in [(1, 1, 1), (2, 3, 4), (5, 4, 3)]:
        P, loss, prior = random_rows(rng, n, m, 0.05), rng.random((n, k)), random_rows(rng, 1, n)[0]
        loss[rng.random((n, k)) < 0.3] = 0
        low, high = sufficiency.exact_risk(P, loss, prior)
        assert low <= exact_bayes_risk(Experiment(P), loss, prior) <= high
        assert float(high - low) <= 2.0**-200


def test_no_answer_without_a_proof(monkeypatch):
    monkeypatch.setattr(sufficiency, "answers", lambda p, q: iter([_deficiency.Answer(None), _deficiency.Answer(None)]))
    with pytest.raises(DpcoreError, match="neither a channel from P to Q nor a decision"):
        is_sufficient(IDENTITY, CONSTANT)


def test_wrong_arguments_are_refused():
    with pytest.raises(ParameterTypeError, match="Q must be an Experiment, got ndarray"):
        is_sufficient(IDENTITY, np.eye(2))
    with pytest.raises(ParameterError, match="same number of states, got 2 and 3"):
        is_sufficient(IDENTITY, Experiment(np.eye(3)))
    with pytest.raises(ParameterError, match="at most 10\\*\\*6 variables"):
        is_sufficient(Experiment(np.full((1, 2000), 1 / 2000)), Experiment(np.full((1, 1000), 1 / 1000)))


# Where Mechanisms as experiments (2014) is wrong


def test_pairwise_regions_do_not_decide_for_three_states():
    """Mechanisms as experiments (2014), Theorem 4, for three data bases: equal pairwise regions, and neither is a garbling of the other."""
    M1 = Experiment(np.array([[3, 3, 1, 1], [3, 1, 3, 1], [3, 1, 1, 3]]) / 8)
    M2 = Experiment(np.array([[1, 1, 3, 3], [1, 3, 1, 3], [1, 3, 3, 1]]) / 8)
    for i in range(3):
        for j in range(3):
            assert M1.power_region(i, j).vertices == pytest.approx(M2.power_region(i, j).vertices)
    for P, Q in ((M1, M2), (M2, M1)):
        answer = is_sufficient(P, Q)
        assert not answer.holds
        check_answer(P, Q, answer)


def test_the_union_over_both_orders_does_not_decide_for_two_states():
    """Mechanisms as experiments (2014), Theorem 4, with R(M) as printed, the union over ordered pairs.

    It is equal for an experiment and its swap, which are not comparable.
    """
    M1, M2 = Experiment([[1.0, 0.0], [0.5, 0.5]]), Experiment([[0.5, 0.5], [1.0, 0.0]])
    forward, backward = (sorted(M.power_region(i, j).vertices.tolist() for i, j in ((0, 1), (1, 0))) for M in (M1, M2))
    assert forward == backward
    for P, Q in ((M1, M2), (M2, M1)):
        answer = is_sufficient(P, Q)
        assert not answer.holds
        check_answer(P, Q, answer)
        # the ordered region tells
        assert not P.power_region(0, 1).contains(Q.power_region(0, 1).vertices).all()


def test_a_single_distribution_tells_nothing():
    """Mechanisms as experiments (2014), Lemma 1 and Theorem 5: M1' ≺ M2' does not give M1 ≺ M2 where P_D has not full column rank."""
    uniform = [[0.5, 0.5]]
    assert is_sufficient(CONSTANT.under(uniform), IDENTITY.under(uniform)).holds
    assert not is_sufficient(CONSTANT, IDENTITY).holds
    # with full column rank it does
    assert not is_sufficient(CONSTANT.under([[0.5, 0.5], [0.9, 0.1]]), IDENTITY.under([[0.5, 0.5], [0.9, 0.1]])).holds


def test_the_testing_region_is_not_that_of_all_actions():
    """Mechanisms as experiments (2014), Section 2.1: with A = [0, 1]² the action (0, 0) has risk (0, 0) in every experiment.

    The segment from (1, 0) to (0, 1) is right.
    """
    response = Experiment([[0.75, 0.25], [0.25, 0.75]])
    square = response.risk_region([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert square.contains((0.0, 0.0))
    tests = response.power_region(0, 1)
    assert not tests.contains((0.0, 0.0))
    # a risk vector lists the states in order, (P_FA, P_MD)
    segment = response.risk_region([[1, 0], [0, 1]])
    assert np.sort(segment.vertices[:, ::-1], axis=0) == pytest.approx(np.sort(tests.vertices, axis=0))
    assert tests.contains(segment.vertices[:, ::-1]).all()


def test_a_notebook_shows_the_decision_problem():
    fine = Experiment([[0.75, 0.25], [0.25, 0.75]])
    problem = is_sufficient(fine.garble([[0.9, 0.1], [0.1, 0.9]]), fine).problem
    assert problem is not None
    shown = problem._repr_html_()
    assert "<th>prior</th><th>loss of decision 0</th>" in shown
    assert "risk 0.3 for P and 0.25 for Q" in shown
