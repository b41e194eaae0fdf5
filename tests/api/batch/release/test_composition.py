"""The budget of a job: shares by weight, and composition by ρ and by privacy losses, checked with exact fractions."""

from __future__ import annotations

import importlib.util
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcore.accounting import Ledger, Uses, pld, zcdp_delta, zcdp_epsilon
from dpcore.batch import make_release_plan, parse_release_job
from dpcore.errors import BudgetError, JobError
from dpcore.privacy import as_written
from dpcore.query import composition
from support.jobs import write_table
from support.releases import Counter, clinic

HAS_PLD = importlib.util.find_spec("dp_accounting") is not None
REGIONS = ["north", "east", "south", "west"]
HISTOGRAM = {"kind": "histogram", "column": "region", "categories": REGIONS, "missing": "skip", "unknown": "skip"}
MEAN = {"kind": "mean", "column": "cost", "lower": 0.0, "upper": 100.0, "missing": 0.0}
QUERIES = {
    "regions": HISTOGRAM,
    "gaussian regions": HISTOGRAM | {"delta": 1e-7},
    "mean": MEAN,
    "gaussian mean": MEAN | {"delta": 1e-8},
    "grouped": MEAN | {"group_by": "region", "groups": REGIONS},
    "skipped": MEAN | {"missing": "skip", "delta": 1e-8},
    "median": {"kind": "median", "column": "cost", "grid": [0, 10, 50, 100], "missing": 0.0},
    "top": {"kind": "top_s", "column": "region", "candidates": REGIONS, "s": 2},
    "var": {"kind": "var", "column": "cost", "lower": 0.0, "upper": 100.0, "missing": 0.0},
}


@pytest.fixture
def place(tmp_path, capsys):
    place = Counter(tmp_path, capsys)
    write_table(clinic(50), place.source)
    return place


def job_of(place, queries, **privacy):
    return {
        "version": 1,
        "input": {"path": str(place.source)},
        "output": {"path": str(place.target)},
        "privacy": {"max_epsilon": 1.0, **privacy},
        "query": [{"name": name, **query} for name, query in queries.items()],
    }


def weighted(**weights):
    names = {name.replace("_", " "): weight for name, weight in weights.items()}
    return {name: QUERIES[name] | {"weight": weight} for name, weight in names.items()}


@pytest.mark.parametrize("seed", range(40))
def test_shares_of_epsilon_never_sum_to_more_than_is_left(place, seed):
    draw = np.random.default_rng(seed)
    limit = float(draw.choice([0.1, 0.3, 1.0, 2.5, 7e-5]))
    queries = {f"q{i}": HISTOGRAM | {"weight": float(draw.choice([0.1, 1 / 3, 1.0, 7.0, 1e-5]))} for i in range(int(draw.integers(1, 12)))}
    fixed = [float(limit * share) for share in draw.dirichlet(np.ones(4))[:3]]
    queries |= {f"fixed{i}": HISTOGRAM | {"epsilon": epsilon} for i, epsilon in enumerate(fixed)}
    job = parse_release_job(job_of(place, queries, max_epsilon=limit))
    spent = [as_written(query.epsilon) for query in job.query]
    assert sum(spent) <= as_written(limit)
    # No more is lost than the last digit of each share.
    assert sum(spent) >= as_written(limit) * (1 - Fraction(len(spent) + 1, 2**50))
    assert job.total.epsilon <= limit
    left = as_written(limit) - sum(as_written(query.epsilon) for query in job.query if query.weight is None)
    whole = sum(Fraction(query.weight) for query in job.query if query.weight is not None)
    for query in job.query:
        if query.weight is not None:
            assert as_written(query.epsilon) <= left * Fraction(query.weight) / whole


def test_a_free_count_takes_no_share(place):
    job = parse_release_job(job_of(place, {"all": {"kind": "count", "weight": 5}} | weighted(regions=1)))
    assert job.total.epsilon == 1.0
    assert job.query[1].epsilon == 1.0


@pytest.mark.parametrize("both", [{"epsilon": 1.0, "weight": 1.0}, {}])
def test_epsilon_or_weight_is_given(place, both):
    with pytest.raises(JobError, match=r"epsilon, or in its place weight, .* is required; (both were|neither was) given"):
        parse_release_job(job_of(place, {"q": HISTOGRAM | both}))


def test_a_part_of_an_epsilon_needs_the_epsilon(place):
    query = {"kind": "mean", "column": "cost", "bounds": "private", "bounds_epsilon": 0.25, "missing": "skip", "weight": 2}
    with pytest.raises(JobError, match='give epsilon in place of weight with bounds = "private", got weight = 2'):
        parse_release_job(job_of(place, {"q": query}))


def test_weights_of_nothing_are_refused(place):
    with pytest.raises(BudgetError, match=r"nothing is left of max_epsilon = 1\.0"):
        parse_release_job(job_of(place, {"q": HISTOGRAM | {"epsilon": 1.0}} | weighted(mean=1)))


@pytest.mark.parametrize("accounting", ["zcdp", "pld"])
def test_a_conversion_needs_a_delta(place, accounting):
    with pytest.raises(JobError, match="max_delta is required with accounting"):
        parse_release_job(job_of(place, weighted(mean=1), accounting=accounting))


@pytest.mark.long
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("unit", [{}, {"unit": "person", "max_rows_per_unit": 2}])
@pytest.mark.parametrize("delta", [1e-6, 1e-9])
def test_rho_of_a_job_fits_its_budget_and_fills_it(place, relation, unit, delta):
    weights = {name: {"weight": 1.0 + i} for i, name in enumerate(QUERIES)}
    queries = {name: query | weights[name] for name, query in QUERIES.items()}
    queries["fixed"] = HISTOGRAM | {"epsilon": 0.125}
    job = job_of(place, queries, max_delta=delta, accounting="zcdp", relation=relation, **unit)
    plan = make_release_plan(parse_release_job(job))
    costs = [Fraction(answer.rho) for answer in plan.estimators]
    # The whole is the least float that is not below the exact sum, and converts to the stated guarantee by Canonne, Kamath and Steinke.
    rho = plan.job.head()["accounting"]["rho"]
    assert sum(costs) <= Fraction(rho) <= sum(costs) * (1 + Fraction(1, 2**52))
    assert zcdp_delta(rho, 1.0) <= delta
    assert zcdp_epsilon(rho, delta) > 1 - 1e-6
    assert plan.job.total.epsilon <= 1.0
    assert plan.job.total.delta == delta
    left = Fraction(plan.job.head()["accounting"]["rho_allowed"]) - costs[-1]
    whole = sum(1 + i for i in range(len(QUERIES)))
    for i, cost in enumerate(costs[:-1]):
        share = left * (1 + i) / whole
        assert share * (1 - Fraction(1, 10**6)) <= cost <= share


def test_what_has_no_rho_costs_that_of_its_epsilon_and_fails_with_its_delta(place, monkeypatch):
    from dpcore.accounting import rho_pure
    from dpcore.query.estimators import OneDraw

    queries = {"a": HISTOGRAM | {"delta": 4e-7, "epsilon": 0.1}, "b": HISTOGRAM | {"delta": 5e-7, "weight": 1}}
    monkeypatch.setattr(OneDraw, "rho", property(lambda _: None))
    job = make_release_plan(parse_release_job(job_of(place, queries, max_delta=1e-6, accounting="zcdp"))).job
    details = job.head()["accounting"]
    assert details["failure_delta"] == 9e-7
    exact = sum(Fraction(rho_pure(query.epsilon)) for query in job.query)
    assert exact <= Fraction(details["rho"]) <= Fraction(details["rho_allowed"])
    assert zcdp_delta(details["rho"], 1.0) <= 1e-7
    with pytest.raises(BudgetError, match="must be more than the delta of answers that may fail, 9e-07"):
        make_release_plan(parse_release_job(job_of(place, queries, max_delta=9e-7, accounting="zcdp")))


def test_a_job_beyond_its_rho_is_refused(place):
    queries = {f"q{i}": HISTOGRAM | {"epsilon": 0.2} for i in range(200)}
    job = parse_release_job(job_of(place, queries, max_delta=1e-6, accounting="zcdp"))
    with pytest.raises(BudgetError, match=r"the job spends rho = .*, but privacy.max_epsilon = 1.0 with max_delta = 1e-06 allows"):
        make_release_plan(job)


def test_many_answers_cost_less_by_rho_than_by_sums(place):
    queries = {f"q{i}": HISTOGRAM | {"weight": 1.0, "delta": 1e-8} for i in range(64)}
    basic = make_release_plan(parse_release_job(job_of(place, queries, max_delta=1e-6)))
    by_rho = make_release_plan(parse_release_job(job_of(place, queries, max_delta=1e-6, accounting="zcdp")))
    assert by_rho.estimators[0].noise[0].scale < basic.estimators[0].noise[0].scale / 5


@pytest.mark.parametrize("kind", ["basic", "zcdp"])
def test_a_ledger_pays_for_the_composed_job(place, tmp_path, kind):
    limits = {"epsilon": 1.0, "delta": 1e-6} if kind == "basic" else {"rho": 0.03}
    ledger = Ledger.create(tmp_path / "b.ledger", **limits)
    job = job_of(place, weighted(regions=1, gaussian_mean=2, median=1), max_delta=1e-6, accounting="zcdp")
    job["ledger"] = {"path": str(ledger.path)}
    plan = make_release_plan(parse_release_job(job))
    from dpcore.batch import release

    document = release(plan)
    (entry,) = ledger.entries()
    if kind == "basic":
        assert (entry.epsilon, entry.delta) == (plan.job.total.epsilon, 1e-6)
    else:
        assert entry.rho <= 0.0244
        assert entry.rho == pytest.approx(document["accounting"]["rho"])
    assert document["privacy"]["epsilon"] <= 1.0
    assert document["accounting"]["method"] == "zcdp"


def test_losses_are_composed_without_a_ledger(place, tmp_path):
    job = job_of(place, weighted(mean=1), max_delta=1e-6, accounting="pld")
    job["ledger"] = {"path": str(tmp_path / "b.ledger")}
    with pytest.raises(JobError, match="is for jobs without a \\[ledger\\]"):
        parse_release_job(job)


@pytest.mark.long
@pytest.mark.skipif(not HAS_PLD, reason="needs dp-accounting")
@pytest.mark.parametrize("delta", [1e-6, 2e-7])
def test_losses_of_a_job_fit_its_budget(place, delta):
    names = ("regions", "gaussian regions", "mean", "gaussian mean", "median")
    queries = {name: QUERIES[name] | {"weight": 1.0 + i} for i, name in enumerate(names)}
    queries |= {f"fixed{i}": HISTOGRAM | {"epsilon": 0.02} for i in range(10)}
    plan = make_release_plan(parse_release_job(job_of(place, queries, max_delta=delta, accounting="pld")))
    uses = [
        Uses("gaussian", rho=answer.rho)
        if all(noise.law == "gaussian" for noise in answer.noise)
        else Uses("approximate" if answer.section.delta else "pure", epsilon=answer.section.epsilon, delta=answer.section.delta)
        for answer in plan.estimators
    ]
    stated = plan.job.total
    assert stated.delta == delta
    assert stated.epsilon <= 1.0
    found = pld(uses, sampling="none")
    assert found.epsilon(delta) <= stated.epsilon
    assert found.delta(1.0) <= delta
    assert found.epsilon(delta) > 1 - 1e-3
    ratio = plan.job.query[0].epsilon / plan.job.query[0].weight
    assert all(query.epsilon == pytest.approx(ratio * query.weight) for query in plan.job.query if query.weight is not None)


@pytest.mark.skipif(not HAS_PLD, reason="needs dp-accounting")
def test_answers_may_not_fail_more_often_than_the_job(place):
    job = parse_release_job(job_of(place, weighted(gaussian_regions=1), max_delta=1e-7, accounting="pld"))
    with pytest.raises(BudgetError, match="must be more than the delta of answers that may fail, 1e-07"):
        make_release_plan(job)


@pytest.mark.skipif(not HAS_PLD, reason="needs dp-accounting")
def test_a_job_beyond_its_losses_is_refused(place):
    queries = {f"q{i}": HISTOGRAM | {"epsilon": 0.2} for i in range(50)}
    with pytest.raises(BudgetError, match="compose to epsilon ="):
        make_release_plan(parse_release_job(job_of(place, queries, max_delta=1e-6, accounting="pld")))


def test_without_dp_accounting_the_message_has_the_command(place, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(JobError, match=r"pip install '\S*\[accounting\]'"):
        make_release_plan(parse_release_job(job_of(place, weighted(mean=1), max_delta=1e-6, accounting="pld")))


def test_a_dry_run_of_a_job_with_weights_that_is_refused_shows_its_plan(place, tmp_path):
    Ledger.create(tmp_path / "b.ledger", epsilon=0.5)
    place.write_release({"h": HISTOGRAM}, ledger=tmp_path / "b.ledger", privacy={"max_epsilon": 1.0, "max_delta": 0.0})
    text = place.job.read_text().replace("epsilon = 1.0\nconfidence", "weight = 1\nconfidence")
    place.job.write_text(text)
    done = place.release("--dry-run")
    assert done.code == 2
    assert json.loads(done.out)["queries"][0]["privacy"]["epsilon"] == 1.0
    assert "has epsilon 0.5" in done.err


@pytest.mark.parametrize("root", [2.0**-30, 1e-3, 0.7, 1.0, 1.5, 2.0, 777.0, 1e5])
@pytest.mark.parametrize(
    ("cost", "most", "trials"),
    [
        (lambda x: x**2, 1, 12),
        (lambda x: x, 1, 12),
        (lambda x: x**2 + x, 1, 30),
        (lambda x: x if x < 1 else math.floor(x * 2**20) / 2**20, 1 + 2**-20, 70),  # of steps the first is not too much
        (lambda x: x if x <= 1 else x + 1000, 1, 70),  # a jump
    ],
    ids=["square", "line", "sum", "steps", "jump"],
)
def test_the_largest_number_that_fits_is_found_in_few_trials(root, cost, most, trials):
    """The cost of `root` is the whole."""
    tried = []

    def part(x):
        tried.append(x)
        return Fraction(cost(x / root)) / Fraction(cost(1.0))

    found = composition._largest(part)
    assert found in tried
    assert part(found) <= 1
    assert root * most * (1 - 2e-9) <= found <= root * most * (1 + 2**-50)
    assert len(tried) <= trials + abs(math.log2(root))
