"""The keys of noise on a cluster: one for each batch of rows and each column, which a second attempt at the batch finds again.

A batch is so many consecutive rows of a partition. The key of its noise is a keyed hash of everything that the noise may depend on: which
column it is and what its mechanism is, which rows the batch has, and what their values are. An attempt at the same rows in the same order
therefore draws the same noise. Any other batch, or the same rows with other values or in another order, draws independent noise: no two
different values ever share a draw.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore.rng import StreamPosition
from dpcore.spark.canonical import canonical_parts
from dpcore.tables.output import metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from dpcore._backend import Key
    from dpcore.rng import CarriedKey
    from dpcore.tables.randomise import NoisyColumn

NOISE = "noise"
"""The purpose of these keys."""
UNNAMED = b"place"
NAMED = b"file and row"


@dataclass(frozen=True, slots=True)
class Identity:
    """Which rows a batch has, without their values.

    Attributes
    ----------
    partition : int
        Number of the partition.
    first : int
        Position in it of the first row.
    rows : int
        Rows of the batch.
    files, indices : ndarray of int64, shape (rows,), or None
        Of each row its file, as a number, and its position in that; None if the rows have no names, or need none.
    """

    partition: int
    first: int
    rows: int
    files: npt.NDArray[np.int64] | None = None
    indices: npt.NDArray[np.int64] | None = None

    def encoded(self) -> list[bytes]:
        """Return parts that determine the identity.

        Rows that follow each other in one file are one run: its file, its first row, and its length.
        """
        place = np.array([self.partition, self.first, self.rows], "<i8").tobytes()
        if self.files is None or self.indices is None:
            return [UNNAMED, place]
        follows = (np.diff(self.files) == 0) & (np.diff(self.indices) == 1)
        starts = np.flatnonzero(np.append(True, ~follows)) if self.rows else np.empty(0, np.int64)
        lengths = np.diff(np.append(starts, self.rows))
        runs = (self.files[starts], self.indices[starts], lengths)
        return [NAMED, place, *(np.ascontiguousarray(each, "<i8").tobytes() for each in runs)]


def mechanism_parts(position: int, column: NoisyColumn) -> list[bytes]:
    """Which column of a job it is, its mechanism with all parameters, and how its reports are stored."""
    said = json.dumps(metadata.field_metadata(column), sort_keys=True, ensure_ascii=False)
    stored = {name: str(kind) for name, kind in column.reports.types(column.name).items()}
    return [position.to_bytes(8, "little"), column.name.encode(), said.encode(), json.dumps(stored).encode()]


def batch_key(
    key: CarriedKey,
    mechanism: Sequence[bytes],
    identity: Sequence[bytes],
    cells: pa.Array,
    suppressed: npt.NDArray[np.bool_] | None = None,
) -> Key:
    """Return the key of the noise of one column of one batch.

    Parameters
    ----------
    key : CarriedKey
        Of the job.
    mechanism : sequence of bytes
        `mechanism_parts` of the column.
    identity : sequence of bytes
        `Identity.encoded` of the batch.
    cells : pyarrow.Array
        The values of the batch in the column.
    suppressed : ndarray of bool, optional
        Cells that are noised as if they were missing.

    Returns
    -------
    Key
        32 bytes.
    """
    hidden = b"" if suppressed is None else b"\x01" + np.packbits(suppressed, bitorder="little").tobytes()
    return key.derived(NOISE, [*mechanism, *identity, hidden, *canonical_parts(cells)])


class BatchStream:
    """The stream of one column of one batch, which begins at its key.

    Parameters
    ----------
    key : Key
        From `batch_key`.
    """

    __slots__ = ("_key",)

    def __init__(self, key: Key) -> None:
        self._key = key

    @property
    def secure(self) -> bool:
        """False, which chooses ChaCha20 on every CPU: attempts on unlike machines then agree. How secure the job is, its key says."""
        return False

    def position(self) -> StreamPosition:
        """Return the start of the stream, at every call; the draws of one call are separate."""
        return StreamPosition(self._key)

    def __repr__(self) -> str:
        return "BatchStream(<key>)"


class BatchNoise:
    """The streams of the columns of one batch.

    Parameters
    ----------
    key : CarriedKey
        Of the job.
    cells : sequence of pyarrow.Array
        The values of each column that gets noise, in the order of the job.
    mechanisms : sequence of list of bytes
        `mechanism_parts` of each of them.
    identity : Identity
        Which rows the batch has.
    suppressed : ndarray of bool, optional
        Rows whose cells are noised as if they were missing.
    """

    def __init__(
        self,
        key: CarriedKey,
        cells: Sequence[pa.Array],
        mechanisms: Sequence[list[bytes]],
        identity: Identity,
        suppressed: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self._key, self._cells, self._mechanisms, self._suppressed = key, cells, mechanisms, suppressed
        self._identity = identity.encoded()

    def at(self, nonce: int, element: int = 0) -> BatchStream:  # noqa: ARG002  # which rows they are is part of the key
        """Return the stream of the column with this number in the job."""
        return BatchStream(batch_key(self._key, self._mechanisms[nonce], self._identity, self._cells[nonce], self._suppressed))
