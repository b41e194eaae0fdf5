"""A cell that ends a job is in no message of dpcore, nor on the output of the driver's Python, whenever Spark computes the cell."""

from __future__ import annotations

import pytest

from dpcore.errors import StorageError
from dpcore.spark import privatize, release

CELL = "Ann Example HIV"
UNITS = {"max_epsilon": 1.0, "unit": "u", "max_rows_per_unit": 1}
COUNT = {"version": 1, "privacy": UNITS, "query": [{"name": "n", "kind": "count", "epsilon": 1.0}]}
COLUMN = {"name": "smoker", "mechanism": "binary", "epsilon": 1.0}


def released(spark, frame, folder):
    release(frame, COUNT)


def privatized(spark, frame, folder):
    job = {"version": 1, "privacy": {"max_epsilon": 1.0}, "column": [COLUMN]}
    privatize(frame.selectExpr("x > 1 as smoker"), job).write(str(folder / "out"))


def sorted_rows(spark):
    """Spark looks at the rows before the action, to find the ranges."""
    rows = [(f"{number}", number % 7) for number in range(50)] + [(CELL, 1)]
    return spark.createDataFrame(rows, "s string, u int").repartition(2).selectExpr("cast(s as int) x", "u").orderBy("x")


def rows_in_memory(spark):
    """Spark computes them when it plans."""
    return spark.sql(f"select * from values ('{CELL}', 1), ('2', 2) t(s, u)").selectExpr("cast(s as int) x", "u")


@pytest.mark.parametrize("use", [released, privatized])
@pytest.mark.parametrize("made", [sorted_rows, rows_in_memory])
def test_a_cell_that_cannot_be_read_is_not_shown(spark, tmp_path, capfd, use, made):
    spark.conf.set("spark.sql.ansi.enabled", "true")
    frame = made(spark)
    capfd.readouterr()
    with pytest.raises(StorageError) as caught:
        use(spark, frame, tmp_path)
    said = capfd.readouterr()
    assert CELL not in f"{caught.value}{caught.value.__cause__}"
    assert CELL not in "".join(line for line in (said.out + said.err).splitlines() if line.startswith("{"))  # pyspark's own logger
    assert not (tmp_path / "out").exists()
