"""Frames of pandas: columns and named levels of the index become Arrow arrays piece by piece, those of numbers without a copy.

The type of a column follows from its dtype alone. A column of Python objects is one of text: a cell that is text stays, a number, a date, a
time or a UUID is written as text, and any other object is missing. So no cell can decide how another one is read, and none can end a job.
Categories, and levels of a MultiIndex, are read from their labels and the number of each row's label. A dtype of another package has no
type here: what its arrays give for some rows is up to them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.frames.arrow_source import no_type, read_array, read_type
from dpcore.frames.objects import texts
from dpcore.tables.pieces import FileInfo
from dpcore.tables.types.whole_arrays import decoded, one_array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dpcore.frames.source import FrameSource

    Read = Callable[[slice], pa.Array | pa.ChunkedArray]

SNAPSHOTS_FROM = 3
"""The version of pandas since which a shallow copy of a frame never changes."""
NOTHING, ALL = slice(0, 0), slice(None)


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
    _noted: list[FileInfo] = field(default_factory=list, repr=False, compare=False)

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
        """The schema, from dtypes; no row is read. That of a snapshot is found once."""
        if self._noted:
            return self._noted[0]
        columns = self._columns()
        names = tuple(name for name, _ in columns)
        schema = pa.schema([(name, self._type(place)) for name, place in columns])
        info = FileInfo(names, schema, len(self.frame))
        if self.is_snapshot:
            self._noted.append(info)
        return info

    def batches(self, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of some columns, in batches of at most so many."""
        places = dict(self._columns())
        columns = [self._reader(places[name], ALL) for name in names]
        for start in range(0, len(self.frame), rows):
            part = slice(start, start + rows)
            yield from pa.table([read(part) for read in columns], names=list(names)).to_batches()  # ends where a chunk of Arrow does

    def evaluated(self, names: Sequence[str]) -> FrameSource:  # noqa: ARG002
        """Return self; the rows lie in memory."""
        return self

    def _columns(self) -> list[tuple[str, int]]:
        """Names of the columns and their positions; the named levels of the index are at −1, −2 and so on."""
        columns = [(_name(label), place) for place, label in enumerate(self.frame.columns)]
        return columns + [(_name(label), ~level) for level, label in enumerate(self.frame.index.names) if label is not None]

    def _type(self, place: int) -> pa.DataType:
        """The type of a column by its dtype."""
        try:
            return self._reader(place, NOTHING)(NOTHING).type
        except Exception:  # Arrow has no type for it, or pandas knows its time zone by an object that Arrow does not know
            return no_type()

    def _reader(self, place: int, labels: slice) -> Read:
        """What reads some rows of a column, or of a level of the index; with some of its labels, if it has labels."""
        import pandas as pd

        if place >= 0:
            return _reader(self.frame.iloc[:, place], labels)
        index = self.frame.index
        if isinstance(index, pd.MultiIndex):
            return _labelled(np.asarray(index.codes[~place]), index.levels[~place], labels)
        return _reader(index, labels)


def _name(label: object) -> str:
    return label if type(label) is str else str(label)


def _reader(column: Any, labels: slice) -> Read:
    """What reads some rows of a Series or an index, as its dtype says, missing cells as nulls."""
    import pandas as pd

    dtype = column.dtype
    kind = type(dtype)
    if isinstance(dtype, np.dtype):
        return lambda rows: _of_numpy(column[rows].to_numpy() if isinstance(column, pd.RangeIndex) else column.to_numpy()[rows])
    cells = column.array
    if kind is pd.CategoricalDtype:
        return _labelled(np.asarray(cells.codes), cells.categories, labels)
    if kind is pd.SparseDtype:
        dense = np.result_type(dtype.subtype, np.min_scalar_type(dtype.fill_value)) if dtype.subtype.kind != "O" else dtype.subtype
        return lambda rows: _of_numpy(np.asarray(cells[rows].to_dense()).astype(dense))
    if kind is pd.StringDtype and dtype.storage == "python":
        return lambda rows: texts(list(cells[rows].to_numpy(object)))
    if not any(kind is known for known in _known_dtypes()):
        raise TypeError("what an array of another package gives for some rows is up to it")
    return lambda rows: _of_arrow(pa.array(cells[rows], from_pandas=True))


def _known_dtypes() -> list[type]:
    """The dtypes of pandas whose arrays tell Arrow what they hold, whichever rows are there."""
    import pandas as pd

    names = ["ArrowDtype", "BooleanDtype", "DatetimeTZDtype", "Float32Dtype", "Float64Dtype", "IntervalDtype", "PeriodDtype", "StringDtype"]
    names += [f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)]
    return [getattr(pd, name) for name in names]


def _labelled(codes: Any, labels: Any, which: slice) -> Read:
    """What reads rows of which each has the number of a label, −1 if it has none."""
    found = _reader(labels, which)(which)
    dictionary = one_array(found) if isinstance(found, pa.ChunkedArray) else decoded(found)

    def read(rows: slice) -> pa.Array:
        numbers = codes[rows]
        absent = numbers < 0
        indices = pa.array(numbers, mask=absent if absent.any() else None)
        return pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)  # `checked` looks at the numbers

    return read


def _of_numpy(cells: Any) -> pa.Array:
    if cells.dtype == np.dtype(object):
        return texts(cells.tolist())
    return read_array(pa.array(cells, from_pandas=True))


def _of_arrow(found: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """What an array of pandas gives Arrow; chunks stay apart, because to join them is to join their dictionaries."""
    if not isinstance(found, pa.ChunkedArray):
        return read_array(found)
    return pa.chunked_array(list(map(read_array, found.chunks)), read_type(found.type))
