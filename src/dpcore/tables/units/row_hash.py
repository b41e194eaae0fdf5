"""A keyed hash of what a row holds, that does not depend on where the row lies, in which file, or in which engine or library.

The hash of a row is a sum over its columns, in which a missing cell is 0. A cell is hashed as what it means, not as it is stored: whole
numbers of all types are one kind, dates and times are microseconds, and text that is written like a number or a time is that number or
time. So a file without types, a typed file, and a frame of any library with the same rows have the same hashes. Where different cells
mean the same, `marks` differ: rows with equal hashes and equal marks have equal cells, but for one pair in 2^64.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.types.plain import numbers as numbers_of
from dpcore.tables.types.plain import whole_decimals
from dpcore.tables.types.slices import stored
from dpcore.tables.types.timed import DAY, parsed
from dpcore.tables.types.whole_arrays import VIEWS, decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import numpy.typing as npt

    from dpcore.rng import StreamPosition
    from dpcore.tables.pieces import FileInfo

    Array = npt.NDArray[Any]
    Words = npt.NDArray[np.uint64]
    Mask = npt.NDArray[np.bool_]

INTEGER, REAL, TIME, BYTES, MARK = b"integer", b"real", b"time", b"bytes", b"mark"
"""Kinds of cells; the same bits of two kinds have different hashes. A mark says how a cell was written."""
END = 2.0**63
LONGEST = 64
"""Bytes of the longest text that is looked at as a number or a time."""
WHOLE = re.compile(r"^[+-]?\d{1,18}$")
NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?$")
MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d|\d\d:\d\d|[+-]?P[\dT])")
TRUTH = (b"true", b"True", b"TRUE", b"false", b"False", b"FALSE")
ABSENT = tuple(null.encode() for null in NULLS)
TICKS = {"s": (10**6, 1), "ms": (1000, 1), "us": (1, 1), "ns": (1, 1000)}
"""By what a number of ticks is multiplied, and then divided, for microseconds."""


def hash_key(position: StreamPosition) -> bytes:
    """The key of a hash, from a stream's words."""
    words = _backend.uniform_words(position, _backend.HASH_KEY_BYTES // 8)
    return words.astype("<u8").tobytes()


def is_hashed(dtype: pa.DataType) -> bool:
    """Whether cells of a type take part: those that a query can read, and no nested ones."""
    if pa.types.is_dictionary(dtype):
        return is_hashed(dtype.value_type) and not pa.types.is_dictionary(dtype.value_type)
    if isinstance(dtype, pa.BaseExtensionType):
        return False
    is_number = pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_decimal(dtype) or pa.types.is_boolean(dtype)
    is_time = pa.types.is_temporal(dtype) and not pa.types.is_interval(dtype)
    return bool(pa.types.is_null(dtype) or is_number or is_time or _is_bytes(dtype))


def _is_bytes(dtype: pa.DataType) -> bool:
    plain = pa.types.is_string(dtype) or pa.types.is_large_string(dtype) or pa.types.is_binary(dtype) or pa.types.is_large_binary(dtype)
    return bool(plain or pa.types.is_fixed_size_binary(dtype) or dtype in VIEWS)


def types_of_rows(infos: Iterable[FileInfo]) -> dict[str, pa.DataType]:
    """The columns of an input whose cells are hashed, with their types: those that every file has once, of a type that `is_hashed`."""
    found: dict[str, pa.DataType] | None = None
    for info in infos:
        times = Counter(info.names)
        types = {name: pa.binary() if info.types is None else info.types[name] for name in info.names if times[name] == 1}
        known = {name: kind for name, kind in types.items() if is_hashed(kind)}
        found = known if found is None else {name: kind for name, kind in found.items() if name in known}
    return found or {}


class RowHash:
    """Hashes of rows under a key.

    Parameters
    ----------
    key : bytes
        16 bytes.
    names : iterable of str
        The columns that are hashed; their order does not matter.
    exactly : bool, default False
        Whether text is hashed as its bytes, and marks are added to the hash.
    """

    def __init__(self, key: bytes, names: Iterable[str], *, exactly: bool = False) -> None:
        self.names = tuple(names)
        self._cells = {name: CellHashes(key, name, exactly=exactly) for name in self.names}

    def of(self, batch: pa.RecordBatch) -> tuple[Words, Words]:
        """The hash and the marks of each row of a batch that has the columns."""
        hashes, marks = np.zeros((2, len(batch)), np.uint64)
        for name, cells in self._cells.items():
            more, marked = cells.of(batch.column(name))
            hashes += more
            marks += marked
        return hashes, marks


@dataclass(slots=True)
class _Sums:
    """The hashes and marks of some cells, as they are added up."""

    keys: Mapping[bytes, bytes]
    hashes: Words
    marks: Words

    def add(self, kind: bytes, cells: Array, taken: Mask | None = None) -> None:
        """Add the hashes of numbers."""
        _backend.add_row_hashes(self.keys[kind], cells, taken, self.hashes)

    def mark(self, cells: Array, taken: Mask) -> None:
        """Mark some cells, which are rare, with numbers."""
        if taken.any():
            _backend.add_row_hashes(self.keys[MARK], cells, taken, self.marks)


class CellHashes:
    """Hashes of the cells of one column."""

    def __init__(self, key: bytes, name: str, *, exactly: bool = False) -> None:
        self._exactly = exactly
        self._keys = {kind: derived(key, kind + b":" + name.encode(errors="surrogatepass")) for kind in (INTEGER, REAL, TIME, BYTES, MARK)}

    def of(self, cells: pa.Array) -> tuple[Words, Words]:
        """The hash and the mark of each cell."""
        sums = self._sums(cells)
        return (sums.hashes + sums.marks if self._exactly else sums.hashes), sums.marks

    def _sums(self, cells: pa.Array) -> _Sums:
        if pa.types.is_dictionary(cells.type):
            return self._of_labels(cells.dictionary, cells.indices)
        sums = _Sums(self._keys, *np.zeros((2, len(cells)), np.uint64))
        kind = cells.type
        if pa.types.is_null(kind) or not len(cells):
            return sums
        if _is_bytes(kind):
            return self._of_bytes(sums, _bytes_of(cells))
        if pa.types.is_temporal(kind):
            _add_times(sums, cells)
        elif pa.types.is_decimal(kind):
            _add_decimals(sums, cells)
        elif pa.types.is_floating(kind):
            _add_floats(sums, np.asarray(cells.cast(pa.float64()).fill_null(0.0).to_numpy()), _valid(cells))
        else:
            _add_integers(sums, cells)
        return sums

    def _of_labels(self, labels: pa.Array, indices: pa.Array) -> _Sums:
        found = self._sums(labels)
        places = np.asarray(pc.fill_null(indices.cast(pa.int64()), len(labels)).to_numpy())
        return _Sums(self._keys, np.append(found.hashes, np.uint64(0))[places], np.append(found.marks, np.uint64(0))[places])

    def _of_bytes(self, sums: _Sums, cells: pa.Array) -> _Sums:
        if self._exactly:
            _add_texts(self._keys[BYTES], cells, _valid(cells), sums.hashes)
            return sums
        different = cells.dictionary_encode()
        labels = different.dictionary
        found = _Sums(self._keys, *np.zeros((2, len(labels)), np.uint64))
        _add_meanings(found, labels)
        places = np.asarray(pc.fill_null(different.indices.cast(pa.int64()), len(labels)).to_numpy())
        return _Sums(self._keys, np.append(found.hashes, np.uint64(0))[places], np.append(found.marks, np.uint64(0))[places])


def derived(key: bytes, label: bytes) -> bytes:
    """A key for what has this label."""
    halves = np.zeros(2, np.uint64)
    text = np.frombuffer(b"\0" + label + b"\1" + label, np.uint8)
    _backend.add_text_hashes(key, np.array([0, len(label) + 1, 2 * len(label) + 2]), text, None, halves)
    return halves.astype("<u8").tobytes()


def _valid(cells: pa.Array) -> Mask | None:
    return np.asarray(cells.is_valid().to_numpy(zero_copy_only=False)) if cells.null_count else None


def _both(one: Mask | None, other: Mask) -> Mask:
    return other if one is None else one & other


def _add_integers(sums: _Sums, cells: pa.Array) -> None:
    """Integers and truth values; those beyond 63 bits are hashed as the float beside them, and marked."""
    if pa.types.is_boolean(cells.type):
        cells = cells.cast(pa.int8())
    values, valid = np.asarray(cells.fill_null(0).to_numpy(zero_copy_only=False)), _valid(cells)
    if values.dtype != np.uint64 or not (far := values >= np.uint64(2**63)).any():
        sums.add(INTEGER, values.astype(np.int64), valid)
        return
    sums.add(INTEGER, values.astype(np.int64), _both(valid, ~far))
    sums.add(REAL, values.astype(np.float64), _both(valid, far))
    sums.mark(values, _both(valid, far))


def _add_floats(sums: _Sums, values: Array, valid: Mask | None) -> None:
    """Whole ones are integers, and NaN is missing, with a mark."""
    whole = (np.floor(values) == values) & (values >= -END) & (values < END)
    absent = np.isnan(values)
    sums.add(INTEGER, np.where(whole, values, 0.0).astype(np.int64), _both(valid, whole))
    sums.add(REAL, values, _both(valid, ~whole & ~absent))
    sums.mark(np.zeros(len(values)), _both(valid, absent))


def _add_decimals(sums: _Sums, cells: pa.Array) -> None:
    """Whole ones of 63 bits are integers, others the floats beside them, with a mark."""
    whole = whole_decimals(cells, -(2**63))
    integers = np.asarray(whole.fill_null(0).to_numpy())
    is_whole = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False)) & (integers != -(2**63))
    sums.add(INTEGER, integers, is_whole)
    others = _both(_valid(cells), ~is_whole)
    if others.any():
        sums.add(REAL, np.asarray(numbers_of(cells).fill_null(0).to_numpy()).astype(np.float64), others)
        _add_texts(sums.keys[MARK], _bytes_of(cells), others, sums.marks)


def _add_times(sums: _Sums, cells: pa.Array) -> None:
    """Microseconds modulo 2^64, of dates since 1970; what is left of nanoseconds is a mark."""
    kind, valid = cells.type, _valid(cells)
    ticks = np.asarray(cells.view(pa.int32() if kind.bit_width == 32 else pa.int64()).fill_null(0).to_numpy()).astype(np.int64)
    if pa.types.is_date(kind):
        times, over = (DAY, 1) if kind == pa.date32() else (1000, 1)
    else:
        times, over = TICKS[kind.unit]
    sums.add(TIME, ticks * np.int64(times) if over == 1 else ticks // over, valid)
    if over > 1:
        rest = ticks % over
        sums.mark(rest, _both(valid, rest != 0))


def _bytes_of(cells: pa.Array) -> pa.Array:
    """Text and bytes, whether or not they are UTF-8, in one buffer; of decimals as they are stored."""
    kind = cells.type
    if kind in VIEWS:
        return cells.view(pa.binary_view()).cast(pa.large_binary())
    if pa.types.is_decimal(kind):
        return cells.view(pa.binary(kind.bit_width // 8)).cast(pa.large_binary())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        cells = cells.view(pa.binary() if pa.types.is_string(kind) else pa.large_binary())
    return cells.cast(pa.large_binary())


def _add_texts(key: bytes, cells: pa.Array, taken: Mask | None, sums: Words) -> None:
    """Add the hashes of large_binary cells."""
    data, ends = cells.buffers()[2], stored(cells, np.int64, more=1)
    text = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    _backend.add_text_hashes(key, ends, text, taken, sums)


def _add_meanings(sums: _Sums, labels: pa.Array) -> None:
    """Different texts as the numbers, times or truth values that they are written like; those of missing values are missing.

    Such a text is marked with its bytes, since another one may mean the same.
    """
    absent = _is_one_of(labels, ABSENT)
    short = _mask(pc.less_equal(pc.binary_length(labels), LONGEST)) & ~absent
    true_or_false = _is_one_of(labels, TRUTH)
    sums.add(INTEGER, _each(labels, true_or_false, lambda label: label[:1] in b"tT", np.int64), true_or_false)
    are_numbers = _matching(labels, NUMBER, short)
    are_whole = _matching(labels, WHOLE, are_numbers)
    sums.add(INTEGER, _each(labels, are_whole, int, np.int64), are_whole)
    reals = are_numbers & ~are_whole
    if reals.any():
        values = np.zeros(len(labels))
        values[reals] = _each(labels, reals, float, np.float64)[reals]
        _add_floats(sums, values, reals)
    known = absent | true_or_false | are_numbers
    moments = _matching(labels, MOMENT, short & ~known)
    if moments.any():
        found = [_microseconds(label) for label in labels.filter(pa.array(moments)).to_pylist()]
        ticks = np.zeros(len(labels), np.uint64)
        ticks[moments] = [(each or 0) % 2**64 for each in found]
        moments[moments] = [each is not None for each in found]
        sums.add(TIME, ticks, moments)
        known |= moments
    _add_texts(sums.keys[BYTES], labels, ~known, sums.hashes)
    if known.any():
        _add_texts(sums.keys[MARK], labels, known, sums.marks)


def _is_one_of(labels: pa.Array, texts: tuple[bytes, ...]) -> Mask:
    return _mask(pc.is_in(labels, value_set=pa.array(texts, labels.type)))


def _mask(answers: pa.Array) -> Mask:
    return np.asarray(answers.to_numpy(zero_copy_only=False)).astype(np.bool_)


def _matching(labels: pa.Array, pattern: re.Pattern[str], among: Mask) -> Mask:
    """Which of some labels are written like this."""
    return among & _mask(pc.match_substring_regex(labels, pattern.pattern)) if among.any() else among


def _each(labels: pa.Array, chosen: Mask, meaning: Callable[[bytes], Any], kind: Any) -> Array:
    """The meanings of the chosen labels, 0 for others."""
    found = np.zeros(len(labels), kind)
    if chosen.any():
        found[chosen] = [meaning(label) for label in labels.filter(pa.array(chosen)).to_pylist()]
    return found


def _microseconds(label: bytes) -> int | None:
    if not label.isascii():
        return None
    found = parsed(label.decode().replace(" ", "T", 1))
    if found is None:
        return None
    return found[1] * DAY if found[0] == "date" else found[1]


def hash_of_groups(key: bytes, groups: pa.Array) -> Words:
    """A word for the number or the key of each row's group."""
    sums = np.zeros(len(groups), np.uint64)
    plain = decoded(groups)
    if _is_bytes(plain.type):
        _add_texts(key, _bytes_of(plain), None, sums)
    else:
        _backend.add_row_hashes(key, np.asarray(plain.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64), None, sums)
    return sums
