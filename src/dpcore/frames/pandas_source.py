"""Frames of pandas: columns and named levels of the index become Arrow arrays piece by piece, those of numbers without a copy.

The type of a column follows from its dtype alone. A column of Python objects is one of text: a cell that is text stays, a number, a date, a
time or a UUID is written as text, and any other object is missing. So no cell can decide how another one is read, and none can end a job.
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from dpcore.batch.tables.pieces import FileInfo
from dpcore.frames.arrow_source import no_type, read_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from dpcore.frames.source import Source

SNAPSHOTS_FROM = 3
"""The version of pandas since which a shallow copy of a frame never changes."""


@dataclass(frozen=True, slots=True)
class PandasSource:
    """A DataFrame of pandas.

    Attributes
    ----------
    frame : pandas.DataFrame
        A shallow copy of the frame that was given; of class `DataFrame` itself.
    name : str
        For messages.
    """

    frame: Any = field(repr=False)
    name: str = "pandas DataFrame"
    native: str = "pandas"

    @classmethod
    def of(cls, frame: Any) -> PandasSource:
        """A source of a frame, or of an instance of a subclass, of which no method is called."""
        import pandas as pd

        return cls(pd.DataFrame(frame, copy=False))

    @property
    def is_snapshot(self) -> bool:
        """Whether a change of the frame that was given is none of this one."""
        import pandas as pd

        return int(pd.__version__.partition(".")[0]) >= SNAPSHOTS_FROM

    def info(self) -> FileInfo:
        """The schema, from dtypes; no row is read."""
        columns = self._columns()
        names = tuple(name for name, _ in columns)
        schema = pa.schema([(name, _type_of(self._cells(place, slice(0, 0)))) for name, place in columns])
        return FileInfo(names, schema, len(self.frame))

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        places = dict(self._columns())
        for start in range(0, len(self.frame), rows):
            columns = [_array(self._cells(places[name], slice(start, start + rows))) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=list(names))

    def evaluated(self, names: Sequence[str]) -> Source:  # noqa: ARG002
        """The same: it lies in memory."""
        return self

    def _columns(self) -> list[tuple[str, int]]:
        """Names of the columns and their positions; the named levels of the index are at −1, −2 and so on."""
        columns = [(_name(label), place) for place, label in enumerate(self.frame.columns)]
        return columns + [(_name(label), ~level) for level, label in enumerate(self.frame.index.names) if label is not None]

    def _cells(self, place: int, rows: slice) -> Any:
        """Some cells of a column, or of a level of the index, as an array of pandas or NumPy."""
        column = self.frame.index[rows].get_level_values(~place) if place < 0 else self.frame.iloc[rows, place]
        return _plain(column)


def _plain(column: Any) -> Any:
    """The array of a Series or an index: of NumPy, if it has a dtype of NumPy."""
    return column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array


def _name(label: object) -> str:
    return label if type(label) is str else str(label)


def _type_of(cells: Any) -> pa.DataType:
    """The type of a column by its dtype."""
    try:
        return _array(cells).type
    except Exception:  # arrays of other packages may raise anything
        return no_type()


def _array(cells: Any) -> pa.Array:
    """Cells as Arrow, missing ones as nulls."""
    import pandas as pd

    if isinstance(cells.dtype, pd.CategoricalDtype):
        codes = np.asarray(cells.codes)
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), _array(_plain(cells.categories)))
    if cells.dtype == np.dtype(object):
        return texts(cells)
    found = pa.array(cells, from_pandas=True)
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
    kind = read_type(found.type)
    return found if found.type == kind else found.cast(kind)


def texts(cells: npt.NDArray[np.object_]) -> pa.Array:
    """Python objects as text, each by itself."""
    try:
        return pa.array(cells, type=pa.large_string(), from_pandas=True)
    except Exception:  # some cell is no text; what Arrow says about it quotes it
        return pa.array([_text(cell) for cell in cells], type=pa.large_string())


def _text(cell: Any) -> str | None:
    """A cell as text: text, a number, a truth value, a date or time, a UUID; None for everything else.

    No method of a class of others is called.
    """
    kind = type(cell)
    if issubclass(kind, bytes | bytearray | memoryview):  # which Arrow takes for text where all cells are
        return _decoded(bytes(memoryview(cell)))
    if issubclass(kind, str):
        return _decoded(str.encode(cell, errors="surrogatepass"))
    if kind in {bool, np.bool_}:
        return "True" if cell else "False"
    if kind is Decimal:
        return _decimal(cell)
    if kind in _NUMBERS:
        number = cell.item() if issubclass(kind, np.generic) else cell
        if isinstance(number, int):
            return int.__repr__(number) if number.bit_length() <= MOST_BITS else None
        return None if math.isnan(number) else float.__repr__(number)
    return _text_of_object(cell)


def _text_of_object(cell: Any) -> str | None:
    """A date, a time, a duration or a UUID as text."""
    import pandas as pd

    from dpcore.batch.jobfile.times import timed

    kind = type(cell)
    try:
        if kind in {dt.date, dt.datetime, dt.time, dt.timedelta, pd.Timestamp, pd.Timedelta}:
            has_known_zone = type(getattr(cell, "tzinfo", None)) in ZONES  # any other would be asked for its offset
            found = timed(cell) if has_known_zone else None
            return None if found is None else repr(found)
        return str(cell) if kind is UUID else None
    except (ValueError, TypeError, AttributeError, OverflowError):
        return None


def _decimal(cell: Decimal) -> str | None:
    """A decimal in plain notation; None if it is no number, or longer than any that a database holds."""
    return f"{cell:f}" if cell.is_finite() and max(abs(int(cell.as_tuple().exponent)), abs(cell.adjusted())) <= MOST_PLACES else None


ZONES = (type(None), dt.timezone, ZoneInfo)
MOST_BITS = 1024
MOST_PLACES = 100
_NUMBERS = frozenset({int, float, np.float16, np.float32, np.float64, *(np.dtype(code).type for code in "bhilqBHILQ")})


def _decoded(text: bytes) -> str | None:
    """Text from UTF-8; None if it is none, as half of a surrogate pair is."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None
