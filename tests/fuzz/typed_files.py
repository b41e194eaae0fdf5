"""Arrow and Parquet files: readers of other people's bytes, which end in an error of dpcore or in rows."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, ClassVar
from unittest import mock

from dpcore.errors import DpcoreError
from dpcore.tables.discovery import discover
from dpcore.tables.formats import arrow as arrow_input
from fuzz import thrift, typed_seeds
from fuzz.choices import NUMBERS
from fuzz.tables import Files, pieces
from fuzz.target import FoundError

if TYPE_CHECKING:
    import random

    from dpcore.tables.inputs import Inputs


def with_other_numbers(data: bytes, rng: random.Random, *, alignment: int = 4) -> bytes | None:
    """One to three integers, aligned as in a file, replaced by those where types end; most keep the length of the file."""
    if len(data) < 16:
        return None
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        near = min(len(changed), 600)
        at = rng.choice((rng.randrange(len(changed)), rng.randrange(near), len(changed) - 1 - rng.randrange(near)))
        match rng.randrange(8):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at] = rng.randrange(256)
            case 2:
                size = rng.randrange(1, 24)
                changed[at : at + size] = bytes(len(changed[at : at + size]))
            case 3:
                start = rng.randrange(len(changed))
                size = rng.choice((4, 8, 16, 24))
                changed[at : at + size] = changed[start : start + size][: len(changed[at : at + size])].ljust(
                    len(changed[at : at + size]), b"\0"
                )
            case _:
                at -= at % alignment
                wide = struct.pack("<Q", rng.choice(NUMBERS) % 2**64)[: rng.choice((1, 2, 4, 4, 8))]
                changed[at : at + len(wide)] = wide[: len(changed[at : at + len(wide)])]
    return bytes(changed)


class ArrowFiles(Files):
    """The bytes of an Arrow IPC file."""

    name: ClassVar[str] = "arrow"
    promise: ClassVar[str] = "a record batch that is read in parts has the rows that it has as a whole"
    ending: ClassVar[str] = "arrow"
    longest: ClassVar[int] = 16_384
    words: ClassVar[tuple[str, ...]] = ("ARROW1", "visits", "label", "text", "\x00\x00\x00\x00", "dpcore", "ZSTD", "LZ4_FRAME")

    def seeds(self) -> dict[str, bytes]:
        """Files that are as they should be."""
        return typed_seeds.arrow_files()

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        return with_other_numbers(data, rng)

    def look(self, inputs: Inputs, data: bytes) -> None:
        info = inputs.inspect(inputs.paths[0])
        types = {name: kind for name, kind in (info.types or {}).items() if info.names.count(name) == 1}
        if not types:
            return
        whole = _rows(inputs, types)
        # Batches of any size are read in parts, a few rows each.
        with mock.patch.object(arrow_input, "WHOLE_BYTES", 0), mock.patch.object(arrow_input, "PART_BYTES", 64):
            parts = _rows(discover(inputs.paths[0].name), types)
        if isinstance(whole, str) or isinstance(parts, str):
            return
        if whole != parts:
            raise FoundError(f"{len(whole)} rows as a whole, and {len(parts)} in parts, or other cells")


def _rows(inputs: Inputs, types: dict) -> list[str] | str:
    """The rows as text, in which NaN is equal to NaN; or the message of what refuses them."""
    try:
        found = pieces(inputs, types)
    except DpcoreError as error:
        return str(error)
    return [repr([_cell(column[i]) for column in batch.columns]) for batch in found for i in range(len(batch))]


def _cell(scalar: object) -> str:
    try:
        return repr(scalar.as_py())  # type: ignore[attr-defined]
    except Exception as error:  # what no value of Python stands for: text that is not UTF-8, dates of no calendar
        return type(error).__name__


class ParquetFiles(Files):
    """The bytes of a Parquet file."""

    name: ClassVar[str] = "parquet"
    promise: ClassVar[str] = "as many rows are read as the footer says, or none"
    ending: ClassVar[str] = "parquet"
    longest: ClassVar[int] = 16_384
    words: ClassVar[tuple[str, ...]] = (
        "PAR1",
        "visits",
        "label",
        "text",
        "schema",
        "ARROW:schema",
        "pandas",
        "dpcore",
        "org.apache.spark.sql.parquet.row.metadata",
    )

    def seeds(self) -> dict[str, bytes]:
        """Files that are as they should be."""
        return typed_seeds.parquet_files()

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        """Change the footer as what it is, or bytes of the file."""
        changed = thrift.with_another_footer(data, rng) if rng.random() < 0.7 else None
        return with_other_numbers(data, rng, alignment=1) if changed is None else changed

    def look(self, inputs: Inputs, data: bytes) -> None:
        info = inputs.inspect(inputs.paths[0])
        types = {name: kind for name, kind in (info.types or {}).items() if info.names.count(name) == 1}
        if types:
            rows = sum(map(len, pieces(inputs, types)))
            if rows != info.rows:
                raise FoundError(f"{rows} rows are read, and the footer says {info.rows}")
