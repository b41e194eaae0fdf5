"""Files that list the categories of a column."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dpcore._disk.signals import Deferred
from dpcore.errors import JobError, StorageError, reason
from dpcore.tables.fields import MAX_CATEGORIES
from dpcore.tables.formats import csv as csv_input
from dpcore.tables.local_paths import check_local
from dpcore.tables.sources import opened

if TYPE_CHECKING:
    from dpcore.tables.sources import SourceFile


def labels_of(path: str) -> pa.Array:
    """One column of text below a header."""
    check_local("categories_file", path)
    with opened(Path(path)) as source:
        return _labels(source, path)


def _labels(source: SourceFile, path: str) -> pa.Array:
    with Deferred():
        import pyarrow.csv as arrow_csv

    names = csv_input.header(source)
    if len(names) != 1:
        raise JobError(f"{path}: categories are one column with a header, but this file has {len(names)} columns")
    try:
        source.file.seek(0)
        table = arrow_csv.read_csv(
            source.file,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=arrow_csv.ConvertOptions(column_types={names[0]: pa.string()}, strings_can_be_null=False),
        )
    except pa.ArrowInvalid:
        raise JobError(f"{path}: categories are UTF-8 text, one a line below a header; this file holds something else") from None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None
    labels = table.column(0).combine_chunks()
    if not 2 <= len(labels) <= MAX_CATEGORIES:
        raise JobError(f"{path}: between 2 and {MAX_CATEGORIES} categories are needed, but below the header there are {len(labels)}")
    empty = pc.index(labels, "").as_py()
    if empty >= 0:
        raise JobError(f"{path}: category {empty} (counted from 0 below the header) is empty")
    check_distinct(path, labels)
    return labels


def check_distinct(path: str, labels: pa.Array) -> None:
    """Raise `JobError` if a file lists a category twice."""
    counts = pc.value_counts(labels)
    repeated = pc.index(pc.greater(counts.field("counts"), 1), pa.scalar(value=True)).as_py()
    if repeated >= 0:
        found = counts[repeated].as_py()
        raise JobError(f"{path}: categories must be distinct, but {found['values']!r} is listed {found['counts']} times")
