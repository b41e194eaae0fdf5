"""What a job spends in total is never less than its parts, as they are written, and never more than one float64 above them."""

from __future__ import annotations

import math
import re
from decimal import Context, Decimal, localcontext

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpcore import privacy
from dpcore._guarantee import promise
from dpcore.errors import BudgetError
from dpcore.jobs.privatize_job import parse_job
from dpcore.jobs.release_job import parse_release_job
from dpcore.pages import numbers as readable
from dpcore.pages.words import guarantee_in_words
from dpcore.privacy import Privacy
from dpcore.tables.output.metadata import schema_metadata

PLENTY = {"max_epsilon": 1e300, "max_delta": 0.999}
EPSILONS = st.lists(st.floats(2.0**-20, 700.0), min_size=1, max_size=12)


def privatize(epsilons, rows_per_unit=1, **limits):
    """A parsed job with a column of Laplace noise for each ε."""
    columns = [{"name": f"c{i}", "mechanism": "laplace", "epsilon": e, "lower": 0, "upper": 1} for i, e in enumerate(epsilons)]
    unit = {"unit": "person", "max_rows_per_unit": rows_per_unit} if rows_per_unit > 1 else {}
    places = {"input": {"path": "in.parquet"}, "output": {"path": "out.parquet"}}
    return parse_job({"version": 1, **places, "privacy": PLENTY | unit | limits, "column": columns})


def release(epsilons, **limits):
    """A parsed job with a sum for each ε."""
    queries = [{"name": f"q{i}", "kind": "sum", "column": "x", "epsilon": e, "lower": 0, "upper": 1} for i, e in enumerate(epsilons)]
    places = {"input": {"path": "in.parquet"}, "output": {"path": "out.json"}}
    return parse_release_job({"version": 1, **places, "privacy": PLENTY | limits, "query": queries})


def exactly(epsilons, times=1):
    """The sum of the decimals, by arithmetic that knows nothing of the code under test."""
    with localcontext(Context(prec=2500)):
        return sum((Decimal(repr(e)) for e in epsilons), Decimal(0)) * times


def bounds(total, exact):
    """Whether a float is the least one that is written as a number of at least this size."""
    return Decimal(repr(total)) >= exact > Decimal(repr(math.nextafter(total, 0.0)))


@given(EPSILONS, st.integers(1, 50))
@example([1.0, 1e-5, 2e-5], 1)
@example([0.1, 0.2], 1)
@example([1.0, math.ulp(1.0)], 3)
@settings(deadline=None, max_examples=60)
def test_totals_are_rounded_up(epsilons, rows):
    job, other = privatize(epsilons, rows), release(epsilons)
    assert bounds(job.total.epsilon, exactly(epsilons, rows))
    assert bounds(other.total.epsilon, exactly(epsilons))
    assert schema_metadata(job)["epsilon"] == job.total.epsilon
    assert other.head()["privacy"]["epsilon"] == other.total.epsilon
    assert privacy.composed([Privacy(e) for e in epsilons], rows).epsilon == job.total.epsilon


@pytest.mark.parametrize("least", [1e-17, 1e-30, 5e-324 * 2**60])
@pytest.mark.parametrize("make", [privatize, release])
def test_a_job_over_its_budget_by_less_than_a_float_holds_is_refused(make, least):
    """Beside 1.0 neither is seen by a sum that is rounded to nearest; the last two not by 28 decimal digits either."""
    with pytest.raises(BudgetError, match=r"1\.0000000000000002"):
        make([1.0, least], max_epsilon=1.0)


@pytest.mark.parametrize("make", [privatize, release])
def test_what_is_written_to_fit_fits(make):
    assert make([0.1, 0.2], max_epsilon=0.3).total.epsilon == 0.3
    assert make([0.1] * 10, max_epsilon=1.0).total.epsilon == 1.0


@given(st.floats(0, allow_infinity=False), st.floats(0, allow_infinity=False))
@settings(deadline=None)
def test_a_sum_lies_between_its_two_roundings(a, b):
    exact = privacy.as_written(a) + privacy.as_written(b)
    up = privacy.written_up(exact)
    assert privacy.written_sum([a, b]) == up
    assert up == math.inf or privacy.as_written(up) >= exact
    if up < math.inf:
        assert privacy.as_written(privacy.written_down(exact)) <= exact


def test_a_sum_of_deltas_that_protects_nothing_is_over_every_budget():
    assert privacy.composed([Privacy(1.0, 0.6), Privacy(1.0, 0.6)]) == Privacy(2.0, 1 - 2.0**-53)


@given(st.floats(1e-12, 13.9), st.floats(1e-300, 0.5))
@settings(deadline=None)
def test_words_do_not_promise_more_than_numbers(epsilon, delta):
    words = promise(epsilon, delta, unit="row").replace(",", "")
    factor, rest = (float(number) for number in re.findall(r"most ([\d.]+) times .* δ = ([\d.e-]+) is", words)[0])
    assert factor > math.exp(epsilon) * (1 - 1e-15)
    assert rest >= delta
    assert repr(epsilon) in guarantee_in_words(epsilon, delta, "row")


def test_factors_of_large_and_no_losses():
    assert "at most 1,210,000 times" in promise(14.0001, unit="row")
    assert "at most 1.0001 times" in promise(1e-17, unit="row")
    assert "just as likely as" in promise(0.0, unit="row")


@given(st.floats(1e-300, 1e307), st.integers(2, 12))
@settings(deadline=None)
def test_shown_losses_are_rounded_up(value, digits):
    shown = Decimal(readable.rounded_up(value, digits).replace(",", ""))
    assert Decimal(repr(value)) <= shown <= Decimal(repr(value)) * (1 + Decimal(10) ** (1 - digits))
