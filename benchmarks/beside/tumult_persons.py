"""Two questions about persons by Tumult Analytics, on Spark."""

import os
import sys

PACKAGES = ("tmlt.analytics", "tmlt.core", "pyspark")
os.environ["PYSPARK_PYTHON"] = sys.executable


def ask(path, edges, upper):
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        BinningSpec,
        ColumnDescriptor,
        ColumnType,
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
    session = Session.from_dataframe(
        PureDPBudget(1.0),
        "visits",
        spark.read.parquet(path),
        protected_change=AddRowsWithID("person"),
    )
    integer = ColumnDescriptor(ColumnType.INTEGER, allow_null=False)
    persons = (
        QueryBuilder("visits")
        .flat_map_by_id(
            lambda rows: [
                {"visits": len(rows), "cost": sum(row["cost"] or 0 for row in rows)}
            ],
            {"visits": integer, "cost": integer},
        )
        .enforce(MaxRowsPerID(1))
    )
    bins = BinningSpec(edges, names=[str(low) for low in edges[:-1]], right=False)
    counts = persons.histogram("visits", bins, name="low")
    return session, (counts, persons.average("cost", 0, upper)), PureDPBudget(0.5)


def release(path, edges, upper):
    session, queries, budget = ask(path, edges, upper)
    counts, mean = [session.evaluate(query, budget).toPandas() for query in queries]
    found = {(int(low),): (count,) for low, count in counts.itertuples(index=False)}
    return found | {("cost",): (mean.iloc[0, 0],)}


def scales(path, edges, upper):
    session, queries, budget = ask(path, edges, upper)
    return [
        noise["noise_parameter"]
        for query in queries
        for noise in session._noise_info(query, budget)  # noqa: SLF001  nothing else says it
    ]
