"""The reports of a mechanism in a table: NumPy arrays as Arrow columns, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.tables.types.categories import TEXT_TYPES, Categories
from dpcore.tables.types.slices import stored, where
from dpcore.tables.types.values import CellError

if TYPE_CHECKING:
    import numpy.typing as npt

    Types = dict[str, pa.DataType]

HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
NO_DIGIT = 16


class Reports(Protocol):
    """The storage of one column's reports."""

    HOLDS_NULLS: ClassVar[bool]
    """Whether a null is a report."""

    @property
    def form(self) -> str | None:
        """The form of the reports in a format that has only text, if it differs."""

    def types(self, name: str) -> Types:
        """The columns of the table that hold them, with their types."""

    def accepts(self, name: str, found: Types) -> str | None:
        """The name of the first column that is missing or of a type that reports cannot have; None if there is none."""

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        """One array for each of `types`."""

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        """The reports in cells; raises `CellError` at a cell that is no report."""


@dataclass(frozen=True, slots=True)
class _OneColumn:
    """Reports in one column of the same name, of this type."""

    type: pa.DataType

    HOLDS_NULLS: ClassVar[bool] = False

    @property
    def form(self) -> str | None:
        """The reports themselves."""
        return None

    def types(self, name: str) -> Types:
        """The column."""
        return {name: self.type}

    def accepts(self, name: str, found: Types) -> str | None:
        """The column, unless it is there and of the very type."""
        return None if found.get(name) == self.type else name


class NumberReports(_OneColumn):
    """int64 or float64."""

    __slots__ = ()

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        """The array itself."""
        return [pa.Array.from_buffers(self.type, len(reports), [None, pa.py_buffer(reports)], null_count=0)]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        """The column's buffer."""
        (column,) = arrays
        _refuse_nulls(column)
        numbers: npt.NDArray[Any] = column.to_numpy()
        return numbers


class BitReports(_OneColumn):
    """bool."""

    __slots__ = ()

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        packed = pa.py_buffer(np.packbits(reports, bitorder="little"))
        return [pa.Array.from_buffers(pa.bool_(), len(reports), [None, packed], null_count=0)]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        (column,) = arrays
        _refuse_nulls(column)
        bits: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return bits


@dataclass(frozen=True, slots=True)
class CategoryReports(_OneColumn):
    """The categories themselves, as the input has them."""

    categories: Categories

    def accepts(self, name: str, found: Types) -> str | None:
        """The column, unless it can hold the categories; other tools may have changed one kind of text or integer into another."""
        kind = found.get(name)
        return None if kind is not None and self.categories.accepts(kind) and self.can_hold(kind) else name

    def can_hold(self, dtype: pa.DataType) -> bool:
        """Whether a column of a type that the categories accept can hold each of them; of a file's it is not known yet."""
        return self.categories.path is not None or self.categories.all_fit(dtype)

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        return [self.categories.values(reports, self.type)]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        (column,) = arrays
        codes, absent = self.categories.codes(column)
        if absent is not None:
            raise CellError(int(absent.argmax()), "null, which no report is")
        return codes


class CategoriesOrNone(CategoryReports):
    """The categories themselves, or null, which is the report "no answer"; its code is k."""

    __slots__ = ()
    HOLDS_NULLS: ClassVar[bool] = True

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        """The categories, and nulls."""
        none = reports == self.categories.k
        codes = np.where(none, 0, reports)
        values = self.categories.values(codes, self.type)
        return [where(pa.array(~none), values)]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        """The codes; an empty cell of a CSV is "no answer" as well."""
        (column,) = arrays
        codes, absent = self.categories.codes(column)
        codes = np.where(codes == self.categories.k, -1, codes)  # a value that is no category is no report
        if column.type in TEXT_TYPES:
            empty = pc.fill_null(pc.equal(column, ""), True).to_numpy(zero_copy_only=False)  # noqa: FBT003
            absent = empty if absent is None else absent | empty
        return codes if absent is None else np.where(absent, self.categories.k, codes)


class BitsOrNone(_OneColumn):
    """bool, or null, which is the report "no answer"; codes 0, 1 and 2."""

    __slots__ = ()
    HOLDS_NULLS: ClassVar[bool] = True

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        """The bits, and nulls."""
        return [where(pa.array(reports != 2), pa.array(reports == 1))]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        """The codes."""
        (column,) = arrays
        codes: npt.NDArray[Any] = pc.fill_null(column.cast(pa.uint8()), 2).to_numpy(zero_copy_only=False)
        return codes


@dataclass(frozen=True, slots=True)
class PackedReports(_OneColumn):
    """fixed_size_binary of ⌈k/8⌉ bytes, or its hexadecimal text."""

    width: int

    @property
    def form(self) -> str | None:
        return "hexadecimal" if self.type in TEXT_TYPES else None

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        """The rows of bytes."""
        rows = len(reports)
        if self.form is None:
            return [pa.Array.from_buffers(self.type, rows, [None, pa.py_buffer(reports)], null_count=0)]
        digits = np.empty((rows, self.width, 2), np.uint8)
        digits[:, :, 0], digits[:, :, 1] = HEX[reports >> 4], HEX[reports & 15]
        starts = np.arange(rows + 1, dtype=np.int64) * (2 * self.width)
        text = pa.Array.from_buffers(pa.large_string(), rows, [None, pa.py_buffer(starts), pa.py_buffer(digits)], null_count=0)
        return [text.cast(pa.string())]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        """The rows of bytes."""
        (column,) = arrays
        _refuse_nulls(column)
        if self.form is not None:
            return self._from_hex(column)
        whole = np.frombuffer(column.buffers()[1], np.uint8)
        start = column.offset * self.width
        return whole[start : start + len(column) * self.width].reshape(len(column), self.width)

    def _from_hex(self, column: pa.Array) -> npt.NDArray[Any]:
        content, ends = column.buffers()[2], stored(column, np.int32, more=1)
        wrong = np.diff(ends) != 2 * self.width
        if wrong.any():
            raise CellError(int(wrong.argmax()), f"not the {2 * self.width} hexadecimal digits of a report")
        digits = _digit_values()[np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]].reshape(len(column), self.width, 2)
        wrong = (digits == NO_DIGIT).any(axis=(1, 2))
        if wrong.any():
            raise CellError(int(wrong.argmax()), f"not the {2 * self.width} hexadecimal digits of a report")
        return digits[:, :, 0] << 4 | digits[:, :, 1]


@dataclass(frozen=True, slots=True)
class PairReports:
    """A struct of two fields; where the format has no structs, two columns NAME.field.

    Attributes
    ----------
    dtype : numpy.dtype
        Of the reports.
    textual : bool
        Whether there are two columns.
    """

    dtype: np.dtype[Any]
    textual: bool

    HOLDS_NULLS: ClassVar[bool] = False

    @property
    def form(self) -> str | None:
        """Two columns, or one."""
        return "a column for each field" if self.textual else None

    @property
    def _fields(self) -> Types:
        kinds = (self.dtype[name] for name in self._names)
        return {name: pa.from_numpy_dtype(kind) for name, kind in zip(self._names, kinds, strict=True)}

    @property
    def _names(self) -> tuple[str, ...]:
        return self.dtype.names or ()

    def types(self, name: str) -> Types:
        """The struct, or the columns of its fields."""
        if self.textual:
            return {f"{name}.{field}": kind for field, kind in self._fields.items()}
        return {name: pa.struct([pa.field(field, kind, nullable=False) for field, kind in self._fields.items()])}

    def accepts(self, name: str, found: Types) -> str | None:
        """The first column that is missing or of another type; whether nulls are allowed does not matter."""
        if self.textual:
            return next((column for column, kind in self.types(name).items() if found.get(column) != kind), None)
        kind = found.get(name)
        fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)} if kind is not None else {}
        return None if kind is not None and pa.types.is_struct(kind) and fields == self._fields else name

    def write(self, reports: npt.NDArray[Any]) -> list[pa.Array]:
        arrays = [pa.array(np.ascontiguousarray(reports[field])) for field in self._names]
        if self.textual:
            return arrays
        (kind,) = self.types("").values()
        return [pa.StructArray.from_arrays(arrays, fields=list(kind))]

    def read(self, arrays: list[pa.Array]) -> npt.NDArray[Any]:
        if not self.textual:
            (column,) = arrays
            _refuse_nulls(column)
            parts = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
            arrays = [parts[name] for name in self._names]
        reports = np.empty(len(arrays[0]), self.dtype)
        for field, part in zip(self._names, arrays, strict=True):
            _refuse_nulls(part)
            reports[field] = part.to_numpy(zero_copy_only=False)
        return reports


def _refuse_nulls(column: pa.Array) -> None:
    if column.null_count:
        raise CellError(column.is_null().index(pa.scalar(value=True)).as_py(), "null, which no report is")


def _digit_values() -> npt.NDArray[np.uint8]:
    """Value of each byte as a hexadecimal digit."""
    values = np.full(256, NO_DIGIT, np.uint8)
    values[HEX] = np.arange(16)
    values[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)
    return values
