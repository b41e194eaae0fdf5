"""Reads the metadata of outputs, and checks them: another program may have changed the files."""

from __future__ import annotations

import contextlib
import json
import reprlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dpcore._dataclasses import dataclass
from dpcore.errors import DataError, JobError, ParameterError, ParameterTypeError, StorageError, reason
from dpcore.pages.printable import UNPRINTABLE
from dpcore.tables.fields import Section
from dpcore.tables.output import metadata
from dpcore.tables.output.shards import named_shards
from dpcore.tables.randomise import column_of
from dpcore.tables.randomise_fields import COLUMN_SECTIONS
from dpcore.tables.sources import bytes_of, digest_of_file, exists, place_of, size_of, version_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Future

    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.randomise import NoisyColumn
    from dpcore.tables.sources import InputFile


MANY_CATEGORIES, CATEGORIES_PER_BYTE = 2**20, 64
"""Categories of all columns that the metadata of any file may name, and how many more for each of its bytes."""


class Whole(Section):
    """Metadata of a file."""

    model_config = ConfigDict(extra="ignore")

    format: Literal[1]
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, le=1)]
    unit: str
    secure: bool
    version: str


class DescribedFile(Section):
    """Size and digest of the file that a sidecar or a manifest was written for."""

    model_config = ConfigDict(extra="ignore")

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Described:
    """A file of reports.

    Attributes
    ----------
    path : Path, Address or Partitioned
        Where it is.
    info : FileInfo
        Its columns.
    whole : Whole
        Its metadata about all of them.
    fields : dict
        Its metadata about each column of reports.
    table : DescribedFile or None
        The table that a sidecar or a manifest was written for.
    manifest : str or None
        Name of the manifest, if it was one.
    """

    path: InputFile
    info: FileInfo
    whole: Whole
    fields: dict[str, dict[str, Any]]
    table: DescribedFile | None = None
    manifest: str | None = None


def describe(inputs: Inputs) -> list[Described]:
    """Read the metadata of files that belong together.

    Raises
    ------
    DataError
        If a file has none, or none that dpcore could have written.
    JobError
        If two files do not agree.
    StorageError
        If one cannot be read.
    """
    said = {
        shard.path: (DescribedFile(bytes=shard.size, sha256=shard.sha256), file.name)
        for file, shard in named_shards(map(place_of, inputs.paths))
    }
    found = [_describe(inputs, path) for path in inputs.paths]
    found = [file if place_of(file.path) not in said else _in_shards(file, *said[place_of(file.path)]) for file in found]
    for file, size in zip(found, inputs.sizes, strict=True):
        _check_claims(file, size)
    for other in found[1:]:
        _check_agreement(found[0], other)
    return found


def _in_shards(file: Described, table: DescribedFile, manifest: str) -> Described:
    return replace(file, table=table, manifest=manifest)


def column_described(described: Described, name: str) -> NoisyColumn:
    """Return the column that made the reports of one field.

    Raises
    ------
    DataError
        If its metadata are not what dpcore writes.
    """
    said = described.fields[name]
    place = f"{described.path}: the dpcore metadata of column {name!r}"
    if said.get("format") != metadata.FORMAT:
        later = isinstance(said.get("format"), int) and said["format"] > metadata.FORMAT
        raise DataError(f"{place} have format {reprlib.repr(said.get('format'))}{': a later version of dpcore reads it' if later else ''}")
    section = COLUMN_SECTIONS.get(said["mechanism"]) if isinstance(said.get("mechanism"), str) else None
    if section is None:
        raise DataError(
            f"{place} name the mechanism {reprlib.repr(said.get('mechanism'))}; this version supports {', '.join(COLUMN_SECTIONS)}"
        )
    # A file that the metadata name is not read: the author of the metadata may not be allowed to.
    keys = section.model_fields.keys() - {"categories_file"}
    listed = {key: value for key, value in said.items() if key in keys and value is not None}
    if listed.get("categories") is not None:
        listed.pop("k", None)
    try:
        column = column_of(section.model_validate(listed | {"name": name}))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise DataError(f"{place} are damaged: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ParameterError, ParameterTypeError) as error:
        raise DataError(f"{place} are damaged: {error}") from None
    for key, value in metadata.field_metadata(column).items():
        if json.dumps(value) != json.dumps(said.get(key)):
            raise DataError(
                f"{place} are damaged: {key} is {reprlib.repr(said.get(key))}, but the other keys make it {reprlib.repr(value)}"
            )
    return column


def _check_claims(described: Described, size: int) -> None:
    """Raise `DataError` if estimates would take far more memory than the size of the file suggests."""
    claims = [said["k"] for said in described.fields.values() if isinstance(said.get("k"), int)]
    if sum(claims) > max(MANY_CATEGORIES, CATEGORIES_PER_BYTE * size):
        raise DataError(f"{described.path}: the dpcore metadata have more categories than a file of {size} bytes can hold reports about")
    for name in described.fields:
        if UNPRINTABLE.search(name):
            raise DataError(f"{described.path}: the name of column {name!r} holds control characters, which dpcore does not write")


def _describe(inputs: Inputs, path: InputFile) -> Described:
    info, sidecar = inputs.inspect(path), None
    if info.schema is None:
        sidecar = _sidecar(path)
        whole, fields = sidecar.get("schema"), sidecar.get("fields")
        if not isinstance(fields, dict):
            raise DataError(f"{metadata.sidecar_path(place_of(path))}: not the metadata that dpcore writes beside a CSV file")
    else:
        schema = metadata.as_written(info.schema)
        whole = _said(path, "the file", schema.metadata)
        fields = {field.name: _said(path, f"column {field.name!r}", field.metadata) for field in schema if metadata.is_noisy(field)}
    if whole is None and not fields:
        raise DataError(
            f"{path}: no dpcore metadata, so it is unknown how its numbers were made. It is not an output of `dpcore privatize`, "
            "or a program that dropped the metadata has rewritten it"
        )
    if not fields and isinstance(whole, dict) and whole.get("kind") == "synthetic":
        raise DataError(f"{path}: a synthetic table holds no reports to estimate from; compute from its rows as from any table")
    if not fields:
        raise DataError(f"{path}: no column carries dpcore metadata, so there is nothing to estimate")
    damaged = next((name for name, said in fields.items() if not isinstance(said, dict)), None)
    if damaged is not None:
        raise DataError(f"{path}: the dpcore metadata of column {damaged!r} are damaged: not a JSON object")
    fields = {name: {metadata.RENAMED.get(key, key): value for key, value in said.items()} for name, said in fields.items()}
    return Described(path, info, _whole(path, whole), fields, None if sidecar is None else _table(path, sidecar))


def _table(path: InputFile, sidecar: dict[str, Any]) -> DescribedFile | None:
    """The table that a sidecar was written for; the sidecars of the first stream did not name it."""
    said, whole = sidecar.get("table"), sidecar.get("schema")
    if said is None and isinstance(whole, dict) and whole.get("stream_version") == 1:
        return None
    try:
        return DescribedFile.model_validate(said)
    except ValidationError:
        raise DataError(
            f"{metadata.sidecar_path(place_of(path))}: the metadata do not say which table they are for, so they are damaged"
        ) from None


@contextlib.contextmanager
def tables_checked(described: Sequence[Described]) -> Iterator[None]:
    """Compare each table with the digest in its sidecar, while the block reads it.

    Raises
    ------
    DataError
        If a table is not the one that its sidecar was written for.
    """
    stop = threading.Event()
    named = [(file, file.table) for file in described if file.table is not None]
    for file, table in named:
        if _size(file.path) != table.bytes:
            raise _mismatch(file)
    with ThreadPoolExecutor(1, thread_name_prefix="dpcore-digest") as worker:
        digests = [worker.submit(digest_of_file, place_of(file.path), stop) for file, _ in named]
        try:
            yield
        except BaseException:
            stop.set()
            raise
        for (file, table), digest in zip(named, digests, strict=True):
            if _result(file, digest) != table.sha256:
                raise _mismatch(file)


def _size(path: InputFile) -> int | None:
    try:
        return size_of(place_of(path))
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be read{reason(error)}") from None


def _result(file: Described, digest: Future[str]) -> str:
    try:
        return digest.result()
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{file.path}: cannot be read{reason(error)}") from None


def _mismatch(file: Described) -> DataError:
    sidecar = file.manifest or metadata.sidecar_path(place_of(file.path)).name
    return DataError(
        f"{file.path}: this is not the table that {sidecar} was written for (its size or its SHA-256 differs): "
        "the table was changed, or the two files come from different runs"
    )


def _sidecar(path: InputFile) -> dict[str, Any]:
    sidecar = metadata.sidecar_path(place_of(path))
    try:
        if exists(sidecar):
            version_of(sidecar)  # a pipe under this name would never end
        document = json.loads(bytes_of(sidecar))
    except FileNotFoundError:
        raise DataError(f"{path}: its metadata are missing: {sidecar.name} must be beside it, where `dpcore privatize` wrote it") from None
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{sidecar}: cannot be read{reason(error)}") from None
    except JobError:
        raise
    except (ValueError, RecursionError):
        raise DataError(f"{sidecar}: not JSON, so the metadata are damaged") from None
    if not isinstance(document, dict):
        raise DataError(f"{sidecar}: not the metadata that dpcore writes beside a CSV file")
    return document


def _said(path: InputFile, place: str, stored: dict[bytes, bytes] | None) -> Any:
    if stored is None or metadata.KEY not in stored:
        return None
    try:
        return json.loads(stored[metadata.KEY])
    except (ValueError, RecursionError):
        raise DataError(f"{path}: the dpcore metadata of {place} are damaged: not JSON") from None


def _whole(path: InputFile, said: Any) -> Whole:
    try:
        return TypeAdapter(Whole).validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"])) or "all"
        raise DataError(f"{path}: the dpcore metadata of the file are damaged or missing: {key}: {first['msg']}") from None


def _check_agreement(first: Described, other: Described) -> None:
    for key in ("epsilon", "delta", "unit"):
        one, two = getattr(first.whole, key), getattr(other.whole, key)
        if one != two:
            raise JobError(f"{other.path}: the file says {key} = {two!r}, but {first.path} says {one!r}; estimate them separately")
    for name in {**first.fields, **other.fields}:
        if name not in first.fields or name not in other.fields:
            lacking, having = (first, other) if name not in first.fields else (other, first)
            raise JobError(
                f"{lacking.path}: there are no reports in a column {name!r}, but {having.path} has some; estimate them separately"
            )
        for key in {**first.fields[name], **other.fields[name]}:
            one, two = first.fields[name].get(key), other.fields[name].get(key)
            if one != two:
                raise JobError(
                    f"{other.path}: column {name!r} was made with {key} = {reprlib.repr(two)}, "
                    f"but {first.path} has it with {reprlib.repr(one)}; estimate them separately"
                )
