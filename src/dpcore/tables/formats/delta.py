"""Tables of Delta Lake: the files that their log counts now, with the columns of its schema. What was removed does not come back.

`deltalake` reads the log, and dpcore the files, each as any other Parquet file. The files of one version of a table never change.
"""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from dpcore._disk.addresses import Address
from dpcore.errors import JobError, StorageError
from dpcore.tables.formats.table_columns import TableColumns
from dpcore.tables.sources import Partitioned

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dpcore._disk.addresses import Location
    from dpcore.tables.sources import InputFile

Answer = TypeVar("Answer")
LOG = "_delta_log"
READABLE = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors", "columnMapping"}
"""Features that a reader must know, and that change nothing here unless they are in use; the last two are looked at."""


def is_installed() -> bool:
    """Whether such tables can be read."""
    return importlib.util.find_spec("deltalake") is not None


def delta_files(root: Location) -> tuple[list[InputFile], TableColumns]:
    """The files that count in the newest version of a table, and its columns.

    Raises
    ------
    JobError
        If the table uses something that reading its files alone would get wrong.
    StorageError
        If its log cannot be read.
    """
    from deltalake import DeltaTable

    table = _asked(root, lambda: DeltaTable(str(root), storage_options=_options(root)))
    _check_features(root, table)
    added = _asked(root, lambda: pa.table(table.get_add_actions(flatten=True)))
    schema = _asked(root, lambda: pa.schema(table.schema()))
    columns = list(table.metadata().partition_columns)
    files: list[InputFile] = []
    values: dict[InputFile, dict[str, pa.Scalar]] = {}
    order = sorted(range(added.num_rows), key=lambda place: str(added.column("path")[place].as_py()))
    for number, place in enumerate(order, 1):
        file = _located(root, str(added.column("path")[place].as_py()))
        name = Partitioned(file, f"{root} (file {number} of {added.num_rows} in version {table.version()})")
        files.append(name)
        values[name] = {column: added.column(f"partition.{column}")[place] for column in columns}
    return files, TableColumns(schema, values)


def _asked(root: Location, ask: Callable[[], Answer]) -> Answer:
    """What the library that reads the log answers, or an error in our words."""
    from deltalake.exceptions import DeltaError

    try:
        return ask()
    except (DeltaError, OSError, ValueError, pa.ArrowException):
        pass
    # Not where it failed: what the library said may quote a value, and is not the context of this error.
    raise StorageError(f"{root}: the log of this table of Delta Lake cannot be read; check the address, the credentials and the log")


def _options(root: Location) -> dict[str, str]:
    """deltalake takes the environment's settings itself, but wants to be asked for a server without encryption."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    if not isinstance(root, Address) or root.scheme != "s3" or not endpoint:
        return {}
    return {"AWS_ENDPOINT_URL": endpoint, **({"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {})}


def _check_features(root: Location, table: Any) -> None:
    """Raise `JobError` for a table whose files do not say by themselves which rows and columns it has."""
    protocol, configuration = table.protocol(), table.metadata().configuration
    unknown = sorted(set(protocol.reader_features or ()) - READABLE)
    if protocol.min_reader_version > 3 or unknown:
        what = f"needs what dpcore does not know ({', '.join(unknown) or f'reader version {protocol.min_reader_version}'})"
    elif configuration.get("delta.columnMapping.mode", "none") != "none":
        what = "maps the names of its columns (delta.columnMapping.mode)"
    elif protocol.min_reader_version == 3 and _asked(root, lambda: pa.table(table.deletion_vectors()).num_rows):
        what = "has rows that only deletion vectors remove; REORG TABLE … APPLY (PURGE) writes its files anew"
    else:
        return
    raise JobError(f"{root} is a table of Delta Lake that {what}; export the table, and read the export")


def _located(root: Location, path: str) -> Location:
    """Where a file of a table is."""
    inner = unquote(path)
    if "://" in inner or inner.startswith("/") or ".." in inner.split("/"):
        raise JobError(f"{root} is a table of Delta Lake with files outside of its folder; export the table, and read the export")
    return root.below(inner) if isinstance(root, Address) else _below(root, inner)


def _below(root: Path, inner: str) -> Path:
    return root / inner
