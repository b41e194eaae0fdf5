"""A program in the manner of Tumult Core's tutorial and topic guides: with two lines more it prints what it prints without."""

from __future__ import annotations

import pytest

pytest.importorskip("tmlt.core", reason="make test-interop PEER=tumult")

from support.tutorials import said

LINES = ("from dpcore.interop import tumult", "tumult.install()")
SESSION = """
import os
import sys
import warnings

warnings.simplefilter("ignore")  # of pandas, PySpark and distutils, about each other
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
from pyspark.sql import SparkSession

options = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
options |= {"spark.ui.showConsoleProgress": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.warehouse.dir": WAREHOUSE}
builder = SparkSession.builder.master("local[2]")
for option, value in options.items():
    builder = builder.config(option, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
"""
PROGRAM = """
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType
from tmlt.core.domains.spark_domains import SparkDataFrameDomain, convert_spark_schema
from tmlt.core.measurements.aggregations import NoiseMechanism, create_count_measurement, create_sum_measurement
from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise
from tmlt.core.measures import PureDP, RhoZCDP
from tmlt.core.metrics import SymmetricDifference
from tmlt.core.transformations.spark_transformations.agg import Count
from tmlt.core.transformations.spark_transformations.filter import Filter
from tmlt.core.transformations.spark_transformations.groupby import create_groupby_from_column_domains

fields = [StructField("name", StringType()), StructField("age", LongType(), False), StructField("cost", DoubleType(), False)]
visits = spark.createDataFrame([(["n", "s", "w"][i % 3], i % 60, float(i % 7)) for i in range(300)], StructType(fields))
domain, metric = SparkDataFrameDomain(convert_spark_schema(visits.schema)), SymmetricDifference()

adults = Filter(filter_expr="age >= 18", domain=domain, metric=metric) | Count(input_domain=domain, input_metric=metric)
noisy = adults | AddGeometricNoise(2)
print(adults(visits), type(noisy(visits)), noisy.privacy_function(1), noisy.privacy_function(2), abs(int(noisy(visits)) - 210) < 60)

private = SparkDataFrameDomain(convert_spark_schema(StructType([StructField("name", StringType(), False), *fields[1:]])))
named = spark.createDataFrame(visits.collect(), StructType([StructField("name", StringType(), False), *fields[1:]]))
shared = dict(input_domain=private, input_metric=metric, d_in=1, d_out=1)
groups = create_groupby_from_column_domains(private, metric, False, {"name": ["n", "s", "w", "x"]})
pure, zcdp = dict(output_measure=PureDP(), **shared), dict(output_measure=RhoZCDP(), **shared)
count = create_count_measurement(noise_mechanism=NoiseMechanism.GEOMETRIC, groupby_transformation=groups, **pure)
answer = count(named)
print(answer.schema.simpleString(), sorted(row["name"] for row in answer.collect()), answer.collect() == answer.collect())
print(count.privacy_function(1), count.privacy_relation(1, 1))
ages = create_sum_measurement(noise_mechanism=NoiseMechanism.DISCRETE_GAUSSIAN, measure_column="age", lower=0, upper=60, **zcdp)
total = ages(named)
print(type(total), abs(int(total) - 8850) < 1000, ages.privacy_function(1))
"""  # fmt: skip


def test_a_program_prints_the_same_with_two_lines_more(tmp_path):
    where = f"WAREHOUSE = {str(tmp_path)!r}"
    before, after = said(SESSION + PROGRAM, where), said(SESSION + PROGRAM, where, *LINES)
    assert len(before) == 4
    assert before == after


def test_lines_may_stand_after_the_session_was_made(tmp_path):
    program = """
from tmlt.core.measurements.noise_mechanisms import AddGeometricNoise

native = AddGeometricNoise(2)
print(type(native(5)))
from dpcore.interop import tumult

print(tumult.install())
print(tumult.install())  # the cell is run again
print(type(native(5)), type(AddGeometricNoise(2)(5)))
tumult.uninstall()
print(type(native(5)))
"""
    kind, shown, again, kinds, last = said(SESSION + program, f"WAREHOUSE = {str(tmp_path)!r}")
    assert shown == again
    assert shown.startswith("<Installed in tmlt.core: ")
    assert kinds == f"{kind} {kind}"
    assert last == kind
