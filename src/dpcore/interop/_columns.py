"""A mechanism on the columns of any library: what becomes of missing values, of chunks and of their positions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from numbers import Number
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore._validation import check_choice, check_threads
from dpcore.errors import DataError, ParameterError, ParameterTypeError
from dpcore.interop import _cells as cells_of
from dpcore.interop._forms import Answers, Codes, Form, form_of
from dpcore.rng import resolve

if TYPE_CHECKING:
    from dpcore.interop._cells import Array, Mask
    from dpcore.rng import Stream

DTYPES = ("column", "mechanism")
POLICIES = ("refuse", "keep")
BLOCK = 1 << 18
"""Rows with missing cells that are copied at a time."""
UNDECLARED = (
    "missing is required, because {which} can hold nulls or NaN: a value that stands for them; "
    '"keep" leaves them where they are, so that their positions are published; "refuse" raises at the first one'
)

MEANT: tuple[tuple[Any, str], ...] = (
    (
        (Number, np.generic, np.ndarray, list, tuple),
        "; numbers, lists and arrays of NumPy go to the mechanism itself: mechanism.release(data)",
    ),
    (pa.Scalar, "; a single value goes to the mechanism itself: mechanism.release(data.as_py())"),
    (pa.StructArray, "; as a table it is pyarrow.RecordBatch.from_struct_array(data)"),
)
"""What to do with data that are no columns."""


def refused(data: Any, wanted: str) -> ParameterTypeError:
    """The error for data of a type that a library's `release` does not take, with what the reader may have meant."""
    hint = next((hint for kinds, hint in MEANT if isinstance(data, kinds)), "")
    return ParameterTypeError(f"data must be {wanted}, got {type(data).__name__}{hint}")


@dataclass(frozen=True, slots=True)
class ColumnNoise:
    """A mechanism with all that its work on a column depends on.

    Attributes
    ----------
    form : Form
        The mechanism.
    policy : {"refuse", "keep", "replace"} or None
        What becomes of missing values; None if nothing was declared.
    stand_in : object
        What replaces them.
    rng : Stream or None
        None is the secure source.
    threads : int or None
        Number of threads.
    """

    form: Form
    policy: str | None
    stand_in: Any
    rng: Stream | None
    threads: int | None

    @classmethod
    def of(cls, mechanism: Any, missing: Any, dtype: str, rng: Stream | None, threads: int | None) -> ColumnNoise:
        """Check the arguments of a call."""
        form = form_of(mechanism, keeps_type=check_choice("dtype", dtype, DTYPES) == "column")
        check_threads(threads)
        rng = None if rng is None else resolve(rng)  # pieces of a column never read the same words, even if the stream repeats itself
        if isinstance(missing, str) and missing in POLICIES:
            return cls(form, missing, form.neutral, rng, threads)
        if isinstance(missing, str) and not isinstance(form, Codes):
            raise ParameterTypeError(f'missing must be "refuse", "keep" or a value that stands for nulls, got {missing!r}')
        if missing is None and form.own_stand_in is None:
            return cls(form, None, form.neutral, rng, threads)
        return cls(form, "replace", form.stand_in(form.own_stand_in if missing is None else missing), rng, threads)

    def check_declared(self, which: str) -> None:
        """Raise if a column that can hold missing values has no declaration of what becomes of them."""
        if self.policy is None:
            raise ParameterError(UNDECLARED.format(which=which))

    def result(self, dtype: pa.DataType, *, nullable: bool = True, which: str = "a column of this type") -> pa.DataType:
        """The type of the results for a column; raises if the mechanism does not take it, or a declaration is missing."""
        found = self.form.result(dtype)
        if nullable or dtype in cells_of.FLOATS:
            self.check_declared(which)
        is_fraction = type(self.stand_in) is float and not _is_int64(self.stand_in)
        if self.policy == "replace" and is_fraction and dtype not in cells_of.FLOATS and not self.form.clamps:
            raise ParameterError(f"missing must be an integer for {which}, which holds integers, got {self.stand_in!r}")
        return found

    def chunked(self, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """The reports of a column, in chunks of the same lengths."""
        found, start, chunks = self.form.result(cells.type), 0, []
        room = self.form.room(cells.type, len(cells)) if cells.num_chunks > 1 else None
        for chunk in cells.chunks:
            end = start + len(chunk)
            chunks.append(self.array(chunk, start, None if room is None else room[start:end]))
            start = end
        return pa.chunked_array(chunks, type=found)

    def array(self, cells: pa.Array, start: int = 0, room: Array | None = None) -> pa.Array:
        """The reports of an array, whose first row has the number `start`; in `room`, if that is given."""
        kind, n = cells.type, len(cells)
        self.form.result(kind)
        values, nulls = self.form.read(cells)
        nans = cells_of.nan_mask(values)
        reports = self.reports(values, nulls, nans, kind, n, start, room)
        bitmap = self._bitmap(cells, nulls, nans, reports) if self.policy == "keep" else None
        return self.form.write(reports, kind, n, bitmap)

    def reports(
        self, values: Array, nulls: Mask | None, nans: Mask | None, dtype: pa.DataType, n: int, start: int = 0, room: Array | None = None
    ) -> Array:
        """The reports for what the form read: numbers, or packed bits."""
        absent = cells_of.either(nulls, nans)
        self._refuse(absent, start)
        is_packed = isinstance(self.form, Answers) and dtype == pa.bool_() and values.dtype == np.uint8
        if absent is None:
            return self._packed(values, n) if is_packed else self._drawn(values, dtype, start, room)
        if is_packed:
            return self._packed(_filled_bits(values, absent, self.stand_in), n)
        reports = self._in_blocks(values, absent, dtype, start, room)
        if nans is not None and self.policy == "keep" and reports.dtype.kind == "f":
            reports[nans] = np.nan
        return reports

    def _packed(self, bits: Array, n: int) -> Array:
        reports: Array = self.form.mechanism.privatize_packed(bits, n=n, rng=self.rng, threads=self.threads)
        return reports

    def _drawn(self, values: Array, dtype: pa.DataType, start: int, room: Array | None) -> Array:
        try:
            return self.form.draw(values, dtype, self.rng, self.threads, room)
        except DataError as error:
            if start == 0:
                raise
            raise DataError(f"{error}, counted from row {start}") from None

    def _in_blocks(self, values: Array, absent: Mask, dtype: pa.DataType, start: int, room: Array | None) -> Array:
        """The reports where some cells are missing: values with stand-ins exist for a block at a time."""
        n = len(values)
        reports = self.form.room(dtype, n) if room is None and n > BLOCK else room
        for first in range(0, n, BLOCK):
            last = min(first + BLOCK, n)
            filled = _filled(values[first:last], absent[first:last], self.stand_in)
            part = self._drawn(filled, dtype, start + first, None if reports is None else reports[first:last])
            if last - first == n:
                return part
            reports = np.empty((n, *part.shape[1:]), part.dtype) if reports is None else reports
            if not np.may_share_memory(part, reports):
                reports[first:last] = part
        if reports is None:
            raise AssertionError("an array without rows has no missing ones")
        return reports

    def _refuse(self, absent: Mask | None, start: int) -> None:
        if absent is None or self.policy in {"keep", "replace"}:
            return
        if self.policy is None:
            raise ParameterError(UNDECLARED.format(which="the column"))
        raise DataError(f'the column is null or NaN at row {start + int(absent.argmax())}, and missing is "refuse"')

    def _bitmap(self, cells: pa.Array, nulls: Mask | None, nans: Mask | None, reports: Array) -> pa.Buffer | None:
        """The validity bits of results whose missing cells stay: those of the column, unless NaN has to become null."""
        if nans is None or reports.dtype.kind == "f":
            return None if nulls is None else cells_of.validity(cells, nulls)
        absent = cells_of.either(nulls, nans)
        return None if absent is None else cells_of.packed_validity(absent)


def _filled(values: Array, absent: Mask, stand_in: Any) -> Array:
    """A copy with another value where cells are missing, in memory that is wiped."""
    kind = values.dtype.kind
    is_whole = kind in "iu" and (type(stand_in) is not float or _is_int64(stand_in))
    number = int(stand_in) if is_whole else stand_in
    wide = np.int64 if is_whole else np.float64
    copy = _backend.wiped_copy(values, values.dtype if kind == "b" or _holds(values.dtype, number) else wide)
    np.copyto(copy, number, where=absent, casting="unsafe")
    return copy


def _holds(dtype: np.dtype[Any], number: Any) -> bool:
    """Whether an array of this dtype can hold the number."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return bool(dtype.type(number) == number)
    limits = np.iinfo(dtype)
    return isinstance(number, int) and bool(limits.min <= number <= limits.max)


def _is_int64(number: float) -> bool:
    return number.is_integer() and -(2.0**63) <= number < 2.0**63


def _filled_bits(packed: Array, absent: Mask, stand_in: bool) -> Array:
    """A copy of packed bits with others where cells are missing."""
    nulls = np.packbits(absent, bitorder="little")
    copy = _backend.wiped_copy(packed)
    (np.bitwise_or if stand_in else np.bitwise_and)(copy, nulls if stand_in else ~nulls, out=copy)
    return copy


@dataclass(frozen=True, slots=True)
class TableNoise:
    """Mechanisms on columns of a table.

    Attributes
    ----------
    columns : dict
        By name of column.
    keep : tuple of str
        Columns that are given as they are.
    """

    columns: dict[Any, ColumnNoise]
    keep: tuple[Any, ...]

    @classmethod
    def of(cls, mechanisms: Any, missing: Any, dtype: str, keep: Any, rng: Stream | None, threads: int | None) -> TableNoise:
        """Check the arguments of a call on a table."""
        if not isinstance(mechanisms, Mapping):
            raise ParameterTypeError(f"a table takes a mapping of column names to mechanisms, got {type(mechanisms).__name__}")
        if isinstance(keep, str) or not isinstance(keep, Sequence) or not all(isinstance(name, Hashable) for name in keep):
            raise ParameterTypeError("keep must be a list of names of columns")
        declared = missing if isinstance(missing, Mapping) else dict.fromkeys(mechanisms, missing)
        other = [name for name in declared if name not in mechanisms]
        both = [name for name in keep if name in mechanisms]
        if not mechanisms or other or both:
            raise ParameterError(
                "mechanism must name at least one column"
                if not mechanisms
                else f"missing names the column {other[0]!r}, which has no mechanism"
                if other
                else f"the column {both[0]!r} has a mechanism, so it cannot be in keep"
            )
        rng = None if rng is None else resolve(rng)
        columns = {name: ColumnNoise.of(each, declared.get(name), dtype, rng, threads) for name, each in mechanisms.items()}
        return cls(columns, tuple(keep))

    def chosen(self, names: Sequence[Any]) -> list[Any]:
        """The columns of the result, in the order of the table; raises if one is absent or its name is not unique."""
        wanted = {*self.columns, *self.keep}
        found = [name for name in names if name in wanted]
        absent = [name for name in (*self.columns, *self.keep) if name not in found]
        if absent:
            raise ParameterError(f"the table has no column {absent[0]!r}")
        if len(set(found)) < len(found):
            raise ParameterError(f"several columns of the table are called {next(name for name in found if found.count(name) > 1)!r}")
        return found

    def schema(self, schema: pa.Schema) -> pa.Schema:
        """The columns of the result and their types, without metadata; raises if a mechanism does not take its column."""
        return pa.schema([self._field(schema.field(schema.names.index(name))) for name in self.chosen(schema.names)])

    def _field(self, given: pa.Field) -> pa.Field:
        if given.name not in self.columns:
            return given.remove_metadata()
        noise = self.columns[given.name]
        try:
            found = noise.result(given.type, nullable=given.nullable, which=f"the column {given.name!r}")
        except ParameterTypeError as error:
            raise ParameterTypeError(f"column {given.name!r}: {error}") from None
        nan_is_null = noise.policy == "keep" and given.type in cells_of.FLOATS and found not in cells_of.FLOATS
        return pa.field(given.name, found, given.nullable or nan_is_null)

    def column(self, name: str, cells: pa.ChunkedArray) -> pa.ChunkedArray:
        """The reports of a column, or the column itself."""
        if name not in self.columns:
            return cells
        try:
            return self.columns[name].chunked(cells)
        except DataError as error:
            raise DataError(f"column {name!r}: {error}") from None
