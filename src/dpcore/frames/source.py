"""The one interface to the frames of all libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from dpcore.batch.tables.pieces import FileInfo


class Source(Protocol):
    """A frame, with one interface for all libraries."""

    @property
    def name(self) -> str:
        """What messages and ledgers call it; nothing of its content."""

    @property
    def native(self) -> str:
        """The library in whose frames results come back."""

    @property
    def is_snapshot(self) -> bool:
        """Whether its rows cannot change."""

    def info(self) -> FileInfo:
        """The schema; no row is read."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""

    def evaluated(self, names: Sequence[str]) -> Source:
        """The same rows, so that these columns can be read more than once."""
