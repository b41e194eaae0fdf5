"""Tumult Analytics with dpcore's noise beneath: a session from its budget to its answers, whose laws are exact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("tmlt.analytics", reason="make test-interop PEER=tumult")

from dpcore.interop import tumult
from support import laws
from support.tumult import fit, pd, spark_session

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]  # of pandas, pyspark and distutils about each other

GROUPS, ROWS_OF_EACH = 4000, 2


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two workers, with the settings that Analytics asks for."""
    with spark_session(tmp_path_factory.mktemp("warehouse")) as found:
        yield found


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """Two rows in each group, of 3 and of 5."""
    table = pd.DataFrame({"g": [i // 2 for i in range(GROUPS * ROWS_OF_EACH)], "v": [3, 5] * GROUPS})
    return spark.createDataFrame(table).cache()


def asked(spark: Any, rows: Any, budget: Any, query: str, spent: Any, **options: Any) -> tuple[Any, Any]:
    """The answers to a query by groups, and what is left of the budget."""
    from tmlt.analytics import AddOneRow, KeySet, QueryBuilder, Session

    session = Session.from_dataframe(budget, "rows", rows, protected_change=AddOneRow())
    keys = KeySet.from_dataframe(spark.range(GROUPS).withColumnRenamed("id", "g"))
    found = getattr(QueryBuilder("rows").groupby(keys), query)(**options)
    return session.evaluate(found, spent).toPandas().sort_values("g"), session.remaining_privacy_budget


@pytest.mark.parametrize("served", [True, False], ids=["dpcore", "Tumult"])
def test_counts_of_a_session_have_the_noise_of_the_budget(spark, rows, served):
    """ε = 1/2 for a count that one row changes by 1: geometric noise of scale 2. Tumult's own noise is held to the same law."""
    from tmlt.analytics import PureDPBudget

    if served:
        with tumult.install():
            found, left = asked(spark, rows, PureDPBudget(2), "count", PureDPBudget(0.5))
    else:
        found, left = asked(spark, rows, PureDPBudget(2), "count", PureDPBudget(0.5))
    assert str(left.value) == "3/2"
    noise = found["count"].to_numpy() - ROWS_OF_EACH
    assert fit("AddGeometricNoise", 2.0, noise) > laws.ERROR_RATE
    assert fit("AddGeometricNoise", 1.5, noise) < laws.ERROR_RATE


def test_sums_of_a_session_under_zcdp(spark, rows):
    """ρ = 1/8 for a sum that one row changes by at most 10: discrete Gaussian noise of variance 10²/(2ρ) = 400."""
    from tmlt.analytics import RhoZCDPBudget

    with tumult.install():
        options = {"column": "v", "low": 0, "high": 10}
        found, left = asked(spark, rows, RhoZCDPBudget(1), "sum", RhoZCDPBudget(0.125), **options)
    assert str(left.value) == "7/8"
    noise = found["v_sum"].to_numpy() - 8
    assert fit("AddDiscreteGaussianNoise", 400.0, noise) > laws.ERROR_RATE
    assert fit("AddDiscreteGaussianNoise", 200.0, noise) < laws.ERROR_RATE


def test_a_budget_that_is_used_up_is_tumults_to_refuse(spark, rows):
    from tmlt.analytics import PureDPBudget

    with tumult.install(), pytest.raises(RuntimeError, match="budget"):
        asked(spark, rows, PureDPBudget(0.25), "count", PureDPBudget(0.5))
