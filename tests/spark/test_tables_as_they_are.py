"""Files that Spark would read with other units than they have are read as on one machine, or refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcore.errors import DataError, JobError
from dpcore.spark import release

UNITS = {"max_epsilon": 1000.0, "unit": "u", "max_rows_per_unit": 1}


def counted(path, **given):
    """The number of units of a table, with so little noise that it is exact."""
    query = {"name": "n", "kind": "count", "epsilon": 1000.0}
    job = {"version": 1, "input": {"path": str(path)} | given, "privacy": UNITS, "query": [query]}
    return release(None, job).value


@pytest.mark.parametrize(("values", "kind"), [(("007", "7"), "string"), (("70", "7"), "bigint"), (("2024-01-02", "2024-01-03"), "date")])
def test_folders_hold_as_many_units_as_they_have_names(spark, tmp_path, values, kind):
    for value in values:
        (tmp_path / f"u={value}").mkdir()
        pq.write_table(pa.table({"x": [1] * 5}), tmp_path / f"u={value}" / "a.parquet")
    before = spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled")
    assert counted(tmp_path) == 2
    assert spark.conf.get("spark.sql.sources.partitionColumnTypeInference.enabled") == before
    from dpcore.spark.reading import table_of
    from dpcore.tables.sections import InputSection

    frame = table_of(spark, InputSection(path=str(tmp_path))).frame
    assert dict(frame.dtypes) == {"x": "bigint", "u": kind}


def test_parquet_files_with_other_columns_are_refused(spark, tmp_path):
    for place, name in enumerate("uU"):
        pq.write_table(pa.table({name: list(range(9))}), tmp_path / f"{place}.parquet")
    with pytest.raises(JobError, match=r"of the table, in the order of paths, has a column '[uU]'"):
        counted(tmp_path)


def test_a_csv_whose_units_are_not_utf8_is_refused(spark, tmp_path):
    (tmp_path / "a.csv").write_bytes(b"u,x\n" + b"".join(bytes([0xE0 + place]) + b",1\n" for place in range(16)))
    with pytest.raises(DataError, match="not UTF-8"):
        counted(tmp_path / "a.csv")
