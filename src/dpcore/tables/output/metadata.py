"""The `dpcore` metadata of an output: of its columns, and of the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from dpcore._version import __version__
from dpcore.rng import STREAM_VERSION
from dpcore.tables.output.shards import manifest_path, shard_paths
from dpcore.tables.sources import Where, bytes_of

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcore._disk.addresses import Location
    from dpcore.privacy import Privacy
    from dpcore.tables.randomise import NoisyColumn
    from dpcore.tables.sections import Format, JobFile

KEY = b"dpcore"
TABLE = "dpcore_table"
"""Key of the metadata of the whole table where Spark wrote it: Spark has metadata of columns only."""
SPARK = b"org.apache.spark.sql.parquet.row.metadata"
"""Where files of Spark have them."""
SIDECAR = ".dpcore.json"
"""Ending of what lies beside a CSV file."""
FORMAT = 1
DECLARED = ("lower", "upper", "missing", "unknown", "phi", "method")
RENAMED = {"variant": "method"}
"""Keys of earlier versions of dpcore, and their names now."""
CHOSEN = ("w", "g", "q", "dimension")
"""Parameters that subset selection, local hashing and projective geometry response choose."""


def field_metadata(column: NoisyColumn) -> dict[str, Any]:
    """Everything that an estimator needs to know about one column; keys that its mechanism lacks are null."""
    section, mechanism, categories = column.section, column.mechanism, column.categories
    listed = None if categories is None or categories.labels is None else categories.listed()
    said = {
        "format": FORMAT,
        "mechanism": section.mechanism,
        "epsilon": column.privacy.epsilon,
        "delta": column.privacy.delta,
        "lower": None,
        "upper": None,
        # Without a list, categories are the codes 0 … k − 1; a binary column then holds booleans.
        "k": 2 if section.mechanism == "binary" else None if categories is None else categories.k,
        "categories": listed,
        "missing": None,
        "unknown": None,
        "grid": getattr(mechanism, "grid", None),
    }
    said |= {key: getattr(section, key) for key in DECLARED if getattr(section, key, None) is not None}
    chooser = getattr(mechanism, "oracle", mechanism)
    return said | {key: getattr(chooser, key) for key in CHOSEN if hasattr(chooser, key)}


def schema_metadata(job: JobFile) -> dict[str, Any]:
    """Privacy metadata of a whole file."""
    return spent(job.total, job.privacy.protected, secure=job.secure)


def spent(privacy: Privacy, unit: str, *, secure: bool) -> dict[str, Any]:
    """Privacy metadata of a table."""
    return {
        "format": FORMAT,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "unit": unit,
        "secure": secure,
        "stream_version": STREAM_VERSION,
        "version": __version__,
    }


def encode(metadata: dict[str, Any]) -> dict[bytes, bytes]:
    """Arrow's key-value form of one metadata object."""
    return {KEY: json.dumps(metadata, ensure_ascii=False).encode()}


def as_written(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a file with dpcore's metadata where dpcore puts them, also if Spark has written the file."""
    said = (schema.metadata or {}).get(SPARK)
    if said is None or any(map(is_noisy, schema)):
        return schema
    try:
        listed = {field["name"]: field["metadata"] for field in json.loads(said)["fields"]}
        noisy = {name: each[KEY.decode()].encode() for name, each in listed.items() if isinstance(each.get(KEY.decode()), str)}
        whole = {listed[name][TABLE].encode() for name in noisy}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # of another program
        return schema
    for position, field in enumerate(schema):
        if field.name in noisy:
            schema = schema.set(position, field.with_metadata({KEY: noisy[field.name]}))
    return schema.with_metadata({KEY: whole.pop()}) if len(whole) == 1 else schema


def sidecar_path(output: Where) -> Where:
    """Path of the metadata file beside a CSV file."""
    return output.with_name(f"{output.name}{SIDECAR}")


def table_of(sidecar: Where) -> Where:
    """The table of a sidecar."""
    return sidecar.with_name(sidecar.name.removesuffix(SIDECAR))


def is_sidecar(path: Location) -> bool:
    """Whether a file is what dpcore writes beside a CSV file."""
    try:
        document = json.loads(bytes_of(path))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.keys() >= {"schema", "fields"}


def output_files(output: Where, output_format: Format, shards: int | None = None) -> tuple[Where, ...]:
    """The files of a table, in the order in which they appear: a sidecar before its table, and shards before their manifest."""
    if shards is not None:
        return shard_paths(output, shards) + (manifest_path(output),)  # noqa: RUF005  # whose type mypy knows
    return (sidecar_path(output), output) if output_format == "csv" else (output,)


def sidecar(job: JobFile, columns: tuple[NoisyColumn, ...]) -> dict[str, Any]:
    """Content of the sidecar of a CSV output.

    Under `stored` are the columns whose reports a CSV cannot hold as they are. The digest of the table comes to it when that is written.
    """
    document: dict[str, Any] = {"schema": schema_metadata(job), "fields": {column.name: field_metadata(column) for column in columns}}
    stored = {
        column.name: {"columns": list(column.reports.types(column.name)), "form": column.reports.form}
        for column in columns
        if column.reports.form is not None
    }
    if stored:
        document["stored"] = stored
    return document


def sidecar_content(document: dict[str, Any]) -> bytes:
    """The text of a sidecar."""
    return (json.dumps(document, ensure_ascii=False, indent=2) + "\n").encode()


def is_noisy(field: pa.Field) -> bool:
    """Whether an output field carries noise."""
    return field.metadata is not None and KEY in field.metadata
