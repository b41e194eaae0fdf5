"""Parquet input, one row group after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpcore.errors import StorageError, reason
from dpcore.tables.formats.checked import DAMAGE, NUMBERS, checked, names_of
from dpcore.tables.pieces import MANY_COLUMNS, Cut, FileInfo, Piece
from dpcore.tables.types.sizes import varies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dpcore.tables.sources import SourceFile

READ_AHEAD_BYTES = 32 << 20
"""Read-ahead of all columns together."""
PIECES_AT_ONCE = 2
"""Pieces of many columns of numbers that are read at once."""
FETCHED_BYTES = 512 << 20
"""Largest row group, decoded, whose columns are fetched from a store at once."""
PIECE_BYTES = 8 << 20
"""Decoded size of a piece with long values."""
FEW_ROWS = 1 << 10
"""Rows of a piece with values that may be far longer decoded than encoded."""
FOOTER_BYTES = 1 << 14
"""A footer of so many bytes is kept from the plan of a job to its passes, which else read it again."""
FEW_VALUES = 1 << 17
"""A file with no more is decoded before other threads have begun to help."""
TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
LABEL_BYTES = 64 << 20
"""A piece of labels, decoded, is at most so large; otherwise they stay in their dictionary."""
LABEL_CODE_BYTES = 2
"""Text with so few encoded bytes for each value is read as labels, and stays so: what is done with them is done once for each label."""
MOST_THRIFT_BYTES = 100 << 20
MOST_THRIFT_ITEMS = 1_000_000

Readers = dict[tuple[int | str, ...], pq.ParquetFile]
"""The same file, opened for few columns, or with the text of some in dictionaries."""


def inspect(source: SourceFile) -> FileInfo:
    """Read the footer."""
    with _opened(source, 1) as file:
        schema = _schema(source, file)
        footer = file.metadata
        return FileInfo(tuple(schema.names), schema, footer.num_rows, footer if footer.serialized_size <= FOOTER_BYTES else None)


def pieces(source: SourceFile, types: Mapping[str, pa.DataType], cut: Cut) -> Iterator[Piece]:
    """Read the columns named in `types`.

    A row group is decoded page by page as it is consumed, which pyarrow.dataset does not do (it decodes whole row groups, so its
    memory depends on the writer of the file), and an unreadable page can be named.
    """
    readers: Readers = {}
    with _opened(source, len(types), _labels(types)) as file:
        known = None if source.info is None else source.info.schema
        schema = _schema(source, file) if known is None else known
        types = {name: schema.field(name).type for name in types}  # Another file of the input may have others of the same kind.
        total, done = file.metadata.num_rows, 0
        if sum(file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)) != total:
            raise StorageError(f"{source.path}: its row groups have another number of rows than its footer says")
        if cut.use_threads and total * len(types) <= FEW_VALUES:
            cut = replace(cut, use_threads=False)
        for run in _runs(file, types, cut.rows):
            for batch in _rows_of_run(source, file, readers, run, types, cut):
                yield Piece(batch, done, (done + len(batch)) / total)
                done += len(batch)


def _runs(file: pq.ParquetFile, types: Mapping[str, pa.DataType], rows: int) -> Iterator[range]:
    """Row groups that are read at once: one, or many small ones, since the way to the first row of each takes longer than its rows.

    Text of several groups is read in their dictionaries, which are about as large as what the file holds.
    """
    if file.num_row_groups == 1:
        yield range(1)
        return
    varying, joins = any(map(varies, types.values())), _are_readable_at_once(types)
    first = held = size = 0
    for group in range(file.num_row_groups):
        said = file.metadata.row_group(group)
        more = said.total_byte_size if varying else 0
        if group > first and not (joins and held + said.num_rows <= rows and size + more <= PIECE_BYTES):
            yield range(first, group)
            first, held, size = group, 0, 0
        held, size = held + said.num_rows, size + more
    if first < file.num_row_groups:
        yield range(first, file.num_row_groups)


def _are_readable_at_once(types: Mapping[str, pa.DataType]) -> bool:
    return all(kind in NUMBERS or kind in TEXTS or pa.types.is_dictionary(kind) or not varies(kind) for kind in types.values())


def _rows_of_run(
    source: SourceFile, file: pq.ParquetFile, readers: Readers, run: range, types: Mapping[str, pa.DataType], cut: Cut
) -> Iterator[pa.RecordBatch]:
    """The rows of a run of row groups. If it cannot be read at once its groups are read one by one, which names the one that is damaged."""
    given, rows = 0, sum(file.metadata.row_group(group).num_rows for group in run)
    if len(run) > 1 or (rows <= FEW_ROWS and _are_readable_at_once(types)):
        try:
            for batch in _batches_of_run(source, file, readers, run, types, cut):
                yield batch
                given += len(batch)
        except DAMAGE:
            pass
        else:
            if given == rows:
                return
    for group in run:
        end = file.metadata.row_group(group).num_rows
        for batch in _batches(source, file, readers, group, types, cut):
            end -= len(batch)
            passed = min(given, len(batch))
            given -= passed
            if passed < len(batch):
                yield batch.slice(passed)
        if end:
            where = f"row group {group} of {file.num_row_groups} (counted from 0)"
            raise StorageError(f"{source.path}: {where} has fewer rows than the file says")


def _batches_of_run(
    source: SourceFile, file: pq.ParquetFile, readers: Readers, run: range, types: Mapping[str, pa.DataType], cut: Cut
) -> Iterator[pa.RecordBatch]:
    """The rows of several row groups, their text in dictionaries."""
    texts = [name for name, kind in types.items() if kind in TEXTS]
    footer = _footer(source, file, run[0])
    reading = file if footer is None and not texts else _reader(source, readers, len(types), [*_labels(types), *texts], footer)
    rows = cut.rows if texts or any(map(varies, types.values())) else _rows_at_once(types, cut.rows)
    for batch in reading.iter_batches(rows, row_groups=list(run), columns=list(types), use_threads=cut.use_threads):
        yield checked(batch, types)


def _rows_at_once(types: Mapping[str, pa.DataType], rows: int) -> int:
    """Rows of numbers that are read for pieces of so many: several pieces if columns are many, each of which costs the reader some time."""
    return rows * PIECES_AT_ONCE if len(types) >= MANY_COLUMNS else rows


def _opened(source: SourceFile, columns: int, encoded: list[str] | None = None, footer: Any = None) -> pq.ParquetFile:
    """Open the file; text of the columns in `encoded` stays in dictionaries.

    It is buffered: whole column chunks would otherwise be held in memory, as those of a small file may be. With its `footer`, which is then
    not read again, the chunks of a row group are fetched at the same time: of a store, each read is a request, and waiting for it takes far
    longer than reading.
    """
    ahead = min(max(READ_AHEAD_BYTES // columns, 1 << 14), 1 << 20)
    try:
        source.file.seek(0)
        file = pq.ParquetFile(
            source.file,
            pre_buffer=footer is not None,
            metadata=source.info.footer if footer is None and source.info is not None else footer,
            buffer_size=ahead if source.size > ahead else 0,
            page_checksum_verification=True,
            read_dictionary=encoded,
            # What a footer says about its own length cannot be more than the file has.
            thrift_string_size_limit=min(source.size, MOST_THRIFT_BYTES),
            thrift_container_size_limit=min(source.size, MOST_THRIFT_ITEMS),
        )
    except DAMAGE as error:
        raise _unreadable(source, error) from None
    return file


def _schema(source: SourceFile, file: pq.ParquetFile) -> pa.Schema:
    """The schema, which is made anew each time; its names are text."""
    try:
        schema = file.schema_arrow
        names_of(schema)
    except DAMAGE as error:
        raise _unreadable(source, error) from None
    return schema


def _unreadable(source: SourceFile, error: BaseException) -> StorageError:
    return StorageError(f"{source.path}: cannot be read as Parquet{reason(error)}")


def _batches(
    source: SourceFile, file: pq.ParquetFile, readers: Readers, group: int, types: Mapping[str, pa.DataType], cut: Cut
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group, as many as it has."""
    groups, left = file.num_row_groups, file.metadata.row_group(group).num_rows
    try:
        reading, size = _way_to_read(source, file, readers, group, types, cut.rows)
        batches = reading.iter_batches(size, row_groups=[group], columns=list(types), use_threads=cut.use_threads)
        while left > 0 and (batch := next(batches, None)) is not None:
            batch = checked(batch, types)
            left -= len(batch)
            yield batch
    except DAMAGE as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"{source.path}: row group {group} of {groups} (counted from 0) is unreadable{reason(error)}") from None


def _way_to_read(
    source: SourceFile, file: pq.ParquetFile, readers: Readers, group: int, types: Mapping[str, pa.DataType], rows: int
) -> tuple[pq.ParquetFile, int]:
    """The file, opened so that text stays small, and the rows of a piece, at most `rows`."""
    varying = [name for name, kind in types.items() if varies(kind) and not pa.types.is_dictionary(kind)]
    footer = _footer(source, file, group)
    if footer is not None:
        file = _reader(source, readers, len(types), _labels(types), footer)
    if not varying:
        return file, _rows_at_once(types, rows)
    # The first row comes before any look at the chunks: of a damaged chunk pyarrow's reader raises, its metadata object ends the process.
    first = _first_row(source, readers, group, varying, [name for name in varying if types[name] in TEXTS])
    if first is None:
        return file, rows
    chunks = _chunks(file, group, varying)
    rows = min(rows, _rows_per_piece(file, group, chunks))
    labelled = [name for name in varying if pa.types.is_dictionary(first.column(name).type) and all(map(_is_labelled, chunks[name]))]
    kept = [name for name in labelled if all(map(_has_few_labels, chunks[name])) or _longest(first.column(name)) * rows > LABEL_BYTES]
    return (_reader(source, readers, len(types), [*_labels(types), *kept], footer) if kept else file), rows


def _footer(source: SourceFile, file: pq.ParquetFile, group: int) -> Any:
    """The footer of a file whose row group is fetched at once; None of one on this machine, or if the group is too large for that."""
    return file.metadata if source.is_remote and file.metadata.row_group(group).total_byte_size <= FETCHED_BYTES else None


def _labels(types: Mapping[str, pa.DataType]) -> list[str]:
    """Columns that Arrow wrote as labels.

    Asked for as such they come as they are. Otherwise pyarrow casts them into the type they had, which one that is not UTF-8 would end.
    """
    return [name for name, kind in types.items() if pa.types.is_dictionary(kind) and kind.value_type in TEXTS]


def _reader(source: SourceFile, readers: Readers, columns: int, encoded: list[str], footer: Any = None) -> pq.ParquetFile:
    """The file, opened once for each choice of columns whose text stays in dictionaries: its footer may list thousands of groups."""
    key: tuple[int | str, ...] = (columns, footer is not None, *encoded)
    if key not in readers:
        readers[key] = _opened(source, columns, encoded, footer)
    return readers[key]


def _first_row(source: SourceFile, readers: Readers, group: int, names: list[str], texts: list[str]) -> pa.RecordBatch | None:
    """The first row of a row group, texts with the dictionaries that their chunks begin with where pyarrow can hand them out."""

    def first(encoded: list[str]) -> pa.RecordBatch | None:
        batch = next(
            _reader(source, readers, len(names), encoded).iter_batches(1, row_groups=[group], columns=names, use_threads=False), None
        )
        return None if batch is None else checked(batch, names)

    try:
        return first(texts)
    except DAMAGE:
        return first([])


def _is_labelled(chunk: Any) -> bool:
    """Whether a chunk may have a dictionary; beside other encodings than plain text, pyarrow cannot hand one out."""
    return chunk.has_dictionary_page and not any("DELTA" in encoding for encoding in chunk.encodings)


def _has_few_labels(chunk: Any) -> bool:
    """Whether a chunk has no more than two bytes for each value: text that is not repeated has more."""
    return bool(chunk.total_uncompressed_size <= LABEL_CODE_BYTES * chunk.num_values)


def _chunks(file: pq.ParquetFile, group: int, names: list[str]) -> dict[str, list[Any]]:
    """The column chunks of some columns."""
    metadata, schema = file.metadata.row_group(group), file.schema
    found: dict[str, list[Any]] = {name: [] for name in names}
    for place in range(metadata.num_columns):
        path = schema.column(place).path
        for name in {path, path.partition(".")[0]} & set(found):
            found[name].append(metadata.column(place))
    return found


def _rows_per_piece(file: pq.ParquetFile, group: int, chunks: dict[str, list[Any]]) -> int:
    """Rows that make about `PIECE_BYTES`, by the sizes in the footer: kept columns may hold long values."""
    rows = int(file.metadata.row_group(group).num_rows)
    needed = sum(max(chunk.total_uncompressed_size, chunk.num_values) for each in chunks.values() for chunk in each)
    size = max(1, PIECE_BYTES * rows // max(int(needed), 1))
    shared = any("DELTA_BYTE_ARRAY" in chunk.encodings for each in chunks.values() for chunk in each)
    nested = any(len(each) > 1 or each[0].path_in_schema != name for name, each in chunks.items() if each)
    return min(size, FEW_ROWS) if shared or nested else size


def _longest(labels: pa.DictionaryArray) -> int:
    """Bytes of the longest label of the dictionary that a column chunk begins with; a chunk has one, or none."""
    return pc.max(pc.binary_length(labels.dictionary)).as_py() or 0
