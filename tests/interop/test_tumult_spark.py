"""`dpcore.interop.tumult` through Tumult Core's public measurements on Spark: laws in its workers, what they import, plans, errors."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpcore.interop import tumult
from support import laws
from support.distances import excess_of_sums, rows_whose_sums_round_apart
from support.tumult import MECHANISMS, WHOLE, WIDENS, AddNoiseToSeries, fit, mechanism, pd, series, spark_session

pytestmark = pytest.mark.filterwarnings("ignore")  # of pandas, pyspark and distutils about each other


@pytest.fixture(scope="module")
def spark(tmp_path_factory) -> Iterator[Any]:
    """A session with two workers."""
    with spark_session(tmp_path_factory.mktemp("warehouse")) as found:
        yield found


@pytest.fixture
def installed() -> Iterator[None]:
    with tumult.install():
        yield


def loaded_in_workers(spark: Any, module: str) -> bool:
    """Whether a worker has imported a module."""
    from pyspark.sql import functions

    def check(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:

        for batch in batches:
            yield pd.Series([module in sys.modules] * len(batch))

    check.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    found = spark.range(0, 64, 1, 8).select(functions.pandas_udf(check, "boolean")("id").alias("is")).collect()
    return any(row["is"] for row in found)


def column(name: str, parameter: Any) -> Any:
    """The measurement of Tumult that adds noise to the column `v`."""
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkFloatColumnDescriptor, SparkIntegerColumnDescriptor
    from tmlt.core.measurements.spark_measurements import AddNoiseToColumn

    descriptor = SparkIntegerColumnDescriptor() if name in WHOLE else SparkFloatColumnDescriptor()
    return AddNoiseToColumn(SparkDataFrameDomain({"v": descriptor}), series(name, parameter), "v")


def zeros(spark: Any, name: str, n: int) -> Any:
    return spark.range(n).selectExpr("cast(0 as long) v" if name in WHOLE else "cast(0 as double) v")


def noise_of(frame: Any) -> np.ndarray:
    return frame.toPandas()["v"].to_numpy()


def test_workers_draw_dpcores_noise_without_tumult(spark):
    """First of all tests: later ones make the workers import Tumult."""
    with tumult.install():
        noise = noise_of(column("AddGeometricNoise", 5)(zeros(spark, "AddGeometricNoise", 50_000)))
    assert fit("AddGeometricNoise", 5.0, noise) > laws.ERROR_RATE
    assert loaded_in_workers(spark, "dpcore.noise")
    assert not loaded_in_workers(spark, "tmlt.core")


def test_plans_keep_the_noise_they_were_planned_with(spark):
    frame = zeros(spark, "AddGeometricNoise", 20_000)
    measurement = column("AddGeometricNoise", 5)
    with tumult.install():
        planned = measurement.call(frame)  # lazy: Spark runs it at each collect
    assert fit("AddGeometricNoise", 5.0, noise_of(planned)) > laws.ERROR_RATE
    assert not loaded_in_workers(spark, "tmlt.core")
    native = noise_of(measurement(zeros(spark, "AddGeometricNoise", 500)))
    assert loaded_in_workers(spark, "tmlt.core")
    assert len(native) == 500
    first, second = noise_of(planned), noise_of(planned)
    assert not np.array_equal(first, second)  # as Tumult's own plans do, and say


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_law_of_a_column_is_exact(spark, installed, name):
    released = column(name, "7/2")(zeros(spark, name, 200_000))
    noise = noise_of(released)
    assert fit(name, 3.5, noise) > laws.ERROR_RATE
    assert fit(name, 0.95 * 3.5, noise) < laws.ERROR_RATE
    assert np.array_equal(np.sort(noise), np.sort(noise_of(released)))  # what Tumult has materialised is drawn once
    if name not in WHOLE:
        assert len(np.unique(noise)) > 0.99 * len(noise)  # no worker repeats the noise of another


@pytest.mark.parametrize("kind", ["LAPLACE", "GEOMETRIC", "GAUSSIAN", "DISCRETE_GAUSSIAN"])
def test_counts_by_groups_from_its_public_functions(spark, installed, kind):
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkIntegerColumnDescriptor
    from tmlt.core.measurements.aggregations import NoiseMechanism, create_count_measurement
    from tmlt.core.measures import PureDP, RhoZCDP
    from tmlt.core.metrics import RootSumOfSquared, SumOf, SymmetricDifference
    from tmlt.core.transformations.spark_transformations.groupby import GroupBy

    if not WIDENS and kind in {"LAPLACE", "GAUSSIAN"}:
        pytest.skip("this Tumult has integer noise only for counts")
    pure = kind in {"LAPLACE", "GEOMETRIC"}
    domain = SparkDataFrameDomain({"g": SparkIntegerColumnDescriptor()})
    keys = spark.createDataFrame([(i,) for i in range(5_000)], "g long")
    groups = GroupBy(domain, SymmetricDifference(), use_l2=not pure, group_keys=keys)
    assert groups.output_metric == (SumOf if pure else RootSumOfSquared)(SymmetricDifference())
    measurement = create_count_measurement(
        domain, SymmetricDifference(), PureDP() if pure else RhoZCDP(), d_out="1/2", noise_mechanism=getattr(NoiseMechanism, kind),
        groupby_transformation=groups,
    )  # fmt: skip
    assert measurement.privacy_function(1) == "1/2"
    counts = measurement(spark.createDataFrame([(i % 5_000,) for i in range(10_000)], "g long")).toPandas()["count"].to_numpy()
    name = {"LAPLACE": "AddLaplaceNoise", "GEOMETRIC": "AddGeometricNoise", "GAUSSIAN": "AddGaussianNoise"}.get(kind, MECHANISMS[3])
    assert fit(name, 2.0 if pure else 1.0, counts - 2) > laws.ERROR_RATE
    assert fit(name, 2.0 if pure else 1.0, counts) < laws.ERROR_RATE


def test_measurements_that_hand_their_noise_to_spark_themselves(spark, installed):
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkIntegerColumnDescriptor, SparkStringColumnDescriptor
    from tmlt.core.measurements.spark_measurements import GeometricPartitionSelection, SparseVectorPrefixSums

    domain = SparkDataFrameDomain({"g": SparkStringColumnDescriptor()})
    chosen = GeometricPartitionSelection(domain, threshold=50, alpha=1, count_column="n")
    rows = spark.createDataFrame([("many",)] * 100 + [("few",)] * 3, "g string")
    assert [row["g"] for row in chosen(rows).collect()] == ["many"]
    domain = SparkDataFrameDomain(
        {"g": SparkStringColumnDescriptor(), "rank": SparkIntegerColumnDescriptor(), "n": SparkIntegerColumnDescriptor()}
    )
    prefix = SparseVectorPrefixSums(domain, "n", "rank", alpha=1, grouping_columns=["g"], threshold_fraction=0.9)
    rows = spark.createDataFrame([("a", i, 1000 if i == 4 else 1) for i in range(8)], "g string, rank long, n long")
    assert [row["rank"] for row in prefix(rows).collect()] == [4]


def test_a_function_of_the_user_finds_all_of_the_measurement(spark, installed):
    from pyspark.sql import functions

    measurement = AddNoiseToSeries(mechanism("AddGeometricNoise", 3))

    def noised(values: pd.Series) -> pd.Series:
        assert measurement.noise_measurement.alpha == 3
        return measurement(values)

    noised.__annotations__ = {"values": pd.Series, "return": pd.Series}
    frame = zeros(spark, "AddGeometricNoise", 50_000)
    released = frame.select(functions.pandas_udf(noised, "long")("v").alias("v"))
    assert fit("AddGeometricNoise", 3.0, noise_of(released)) > laws.ERROR_RATE


def test_nulls_and_nan_are_refused_without_a_value(spark, installed):
    bad = spark.createDataFrame([(918273.25,), (float("nan"),)], "v double")
    with pytest.raises(Exception, match="must be finite") as caught:
        column("AddLaplaceNoise", 2).call(bad).collect()
    assert "DataError" in str(caught.value)
    assert "918273" not in str(caught.value)
    null = spark.createDataFrame([(918273,), (None,)], "v long")
    with pytest.raises(Exception, match=r"to integer|only accepts int") as caught:  # Tumult's refusal: the column comes as floats with NaN
        column("AddGeometricNoise", 2).call(null).collect()
    assert "918273" not in str(caught.value)


def test_jobs_of_two_threads(spark, installed):
    with ThreadPoolExecutor(2) as pool:
        noise = list(pool.map(lambda name: (name, noise_of(column(name, 4)(zeros(spark, name, 20_000)))), MECHANISMS))
    assert all(fit(name, 4.0, found) > laws.ERROR_RATE for name, found in noise)


@pytest.mark.source_tree
def test_the_code_on_the_page_runs(spark, repository):
    """The tutorial of Tumult as it is, then with the two lines."""
    page = (repository / "docs/interop/tumult.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```py\n(.*?)```", page, re.DOTALL)
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for block in blocks:
            exec(compile(block, "tumult.md", "exec"), {})
    tumult.uninstall()
    assert len(blocks) >= 2
    assert "1/2" in shown.getvalue()


def test_the_sum_of_a_float_column_moves_further_than_a_row(spark):
    """What the page says of `Sum` of floats: the stability is 1, and the sums of two tables that differ by a 1 are further apart."""
    from tmlt.core.domains.spark_domains import SparkDataFrameDomain, SparkFloatColumnDescriptor
    from tmlt.core.metrics import SymmetricDifference
    from tmlt.core.transformations.spark_transformations.agg import Sum

    domain = SparkDataFrameDomain({"x": SparkFloatColumnDescriptor()})
    total = Sum(input_domain=domain, input_metric=SymmetricDifference(), measure_column="x", lower=0, upper=1)
    found = []
    for rows in rows_whose_sums_round_apart(2000):
        frame = spark.createDataFrame(pd.DataFrame({"x": rows})).coalesce(1)
        found.append(Fraction(float(total(frame))))
    assert total.stability_function(1) == 1
    assert found[1] - found[0] == 1 + excess_of_sums(2000)
