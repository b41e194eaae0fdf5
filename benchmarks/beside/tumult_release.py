"""The release by Tumult Analytics, on Spark."""

import os
import sys

PACKAGES = ("tmlt.analytics", "tmlt.core", "pyspark")
os.environ["PYSPARK_PYTHON"] = sys.executable


def release(path, regions, bands):
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        KeySet,
        MaxRowsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", 2)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    people = spark.read.parquet(path).selectExpr(
        "person", "region", "band", "coalesce(income, 0) - 100 as distance"
    )
    session = Session.from_dataframe(
        PureDPBudget(1.0), "people", people, protected_change=AddRowsWithID("person")
    )
    keys = KeySet.from_dict({"region": regions, "band": bands})
    rows = QueryBuilder("people").enforce(MaxRowsPerID(3)).groupby(keys)
    counts = session.evaluate(rows.count(name="n"), PureDPBudget(0.5)).toPandas()
    sums = session.evaluate(
        rows.sum("distance", -100, 100, name="total"), PureDPBudget(0.5)
    ).toPandas()
    found = counts.merge(sums, on=["region", "band"])
    return {
        (row.region, row.band): (row.n, 100 + row.total / max(row.n, 1))
        for row in found.itertuples()
    }
