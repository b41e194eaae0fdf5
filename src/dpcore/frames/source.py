"""The one interface to the frames of all libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.pieces import FileInfo

    Native = str | Callable[[pa.Table], object]


class FrameSource(Protocol):
    """A frame, with one interface for all libraries."""

    @property
    def name(self) -> str:
        """What messages and ledgers call it; nothing of its content."""

    @property
    def native(self) -> Native:
        """The library in whose frames results come back, or what makes such a frame of a table of pyarrow."""

    @property
    def is_snapshot(self) -> bool:
        """Whether its rows cannot change."""

    def info(self) -> FileInfo:
        """The schema; no row is read."""

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""

    def evaluated(self, names: Sequence[str]) -> FrameSource:
        """The same rows, so that these columns can be read more than once."""


@runtime_checkable
class OwnInput(FrameSource, Protocol):
    """A frame of several parts, which makes its input itself."""

    def input(self) -> Inputs:
        """The input of one run."""


@runtime_checkable
class RemoteSource(OwnInput, Protocol):
    """A frame whose rows another engine reads, where they lie."""

    def answers(self, plan: ReleasePlan) -> dict[str, Any]:
        """Charge and run a plan on this engine, and return the document of its answers."""


ADAPTERS: list[Callable[[object, object], FrameSource | None]] = []
"""Of frames that packages above this one know: each gives the source of a frame and of what is declared of it, or None for what is no frame
of its."""
