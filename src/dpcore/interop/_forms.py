"""What each kind of mechanism reads from a column, and what its reports are stored as."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore import local, mechanisms
from dpcore._backend import HADAMARD_REPORT, HASHING_REPORT
from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.interop import _cells as cells_of
from dpcore.interop._cells import FLOATS, INTEGERS, SIGNED, UNSIGNED
from dpcore.interop._entering import within_int64

if TYPE_CHECKING:
    from dpcore.interop._cells import Array, Mask
    from dpcore.rng import Stream

    Read = tuple[Array, Mask | None]

INT64 = (-(2**63), 2**63 - 1)
LARGEST = float(np.finfo(np.float64).max)
AS_MECHANISM = 'pass dtype="mechanism" for int64 results, or give the column a signed type'


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """A mechanism on columns.

    Attributes
    ----------
    mechanism : object
        Of `dpcore.mechanisms` or `dpcore.local`.
    keeps_type : bool
        Whether results have the type of the column where that can hold them.
    labels : pyarrow.Array or None
        Of the categories, if they have some.
    """

    mechanism: Any
    keeps_type: bool
    labels: pa.Array | None

    @abstractmethod
    def result(self, dtype: pa.DataType) -> pa.DataType:
        """The type of the results for a column of this type; raises `ParameterTypeError` if the mechanism does not take it."""

    @abstractmethod
    def read(self, cells: pa.Array) -> Read:
        """What the mechanism reads, and where it is null."""

    @abstractmethod
    def stand_in(self, value: Any) -> Any:
        """The value, in the mechanism's terms, that stands for missing ones; raises if it cannot."""

    @property
    @abstractmethod
    def neutral(self) -> Any:
        """A value without meaning, which is noised where cells stay missing."""

    @property
    def clamps(self) -> bool:
        """Whether the mechanism clamps numbers to bounds, so that it takes any conversion of them."""
        return hasattr(self.mechanism, "lower")

    @property
    def own_stand_in(self) -> Any:
        """What the mechanism itself uses for missing values; None if nothing."""
        found = getattr(self.mechanism, "missing", None)
        return getattr(self.mechanism, "unknown", None) if found is None else found

    def prepared(self, numbers: Array) -> Array:
        """Numbers as the mechanism takes them: unsigned integers of 64 bits as int64, cut at its end, all others as they are."""
        return within_int64(numbers)

    def room(self, dtype: pa.DataType, n: int) -> Array | None:  # noqa: ARG002
        """Memory for n reports that `draw` writes to, so that chunks share one piece of it; None if it makes its own."""
        return None

    def draw(self, values: Array, dtype: pa.DataType, rng: Stream | None, threads: int | None, room: Array | None) -> Array:  # noqa: ARG002
        """The reports for values of a column of this type; in `room`, if that is given."""
        reports: Array = _call(self.mechanism)(values, rng=rng, threads=threads)
        return reports

    @abstractmethod
    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:
        """The reports as an array, for a column of this type."""

    def refused(self, dtype: pa.DataType, wanted: str) -> ParameterTypeError:
        """The error for a column of a type that the mechanism does not take."""
        return ParameterTypeError(f"{type(self.mechanism).__name__} takes {wanted}, and the column has {dtype}")


def _call(mechanism: Any) -> Any:
    return getattr(mechanism, "release", None) or mechanism.privatize


class _OfNumbers(Form):
    """A mechanism that reads numbers."""

    __slots__ = ()

    def read(self, cells: pa.Array) -> Read:
        if cells_of.is_whole_decimal(cells.type):
            return cells_of.whole_of(cells), cells_of.null_mask(cells)
        numbers = self.prepared(cells_of.numbers_of(cells))
        return numbers, cells_of.null_mask(cells)

    def prepared(self, numbers: Array) -> Array:
        """Unsigned integers of 64 bits as int64, cut at its end, by which no two come further apart; as floats where they are clamped."""
        if numbers.dtype == np.uint64 and self.clamps and not isinstance(self, Integers):
            return numbers.astype(np.float64)
        return within_int64(numbers)

    def _is_number(self, dtype: pa.DataType) -> bool:
        return dtype in INTEGERS or dtype in FLOATS or cells_of.is_whole_decimal(dtype)

    @property
    def neutral(self) -> Any:
        return 0


class Reals(_OfNumbers):
    """Noise on real numbers."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """The type of floats; float64 for integers."""
        if not self._is_number(dtype):
            raise self.refused(dtype, "columns of integers and floats")
        return dtype if self.keeps_type and dtype in FLOATS else pa.float64()

    def stand_in(self, value: Any) -> float:
        """A number."""
        return check_real("missing", value, low=-LARGEST, high=LARGEST)

    def room(self, dtype: pa.DataType, n: int) -> Array | None:
        """Of float64 or float32, to which the kernel rounds."""
        found = self.result(dtype)
        return None if found == pa.float16() else np.empty(n, cells_of.DTYPES[found])

    def draw(self, values: Array, dtype: pa.DataType, rng: Stream | None, threads: int | None, room: Array | None) -> Array:
        """The noisy numbers."""
        found = self.result(dtype)
        if found == pa.float32() and room is None:
            room = np.empty(len(values), np.float32)
        reports: Array = _call(self.mechanism)(values, rng=rng, threads=threads, out=room)
        if found == pa.float16():
            with np.errstate(over="ignore"):
                return reports.astype(np.float16)
        return reports

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The numbers."""
        return cells_of.with_validity(cells_of.array_of(reports, self.result(dtype)), bitmap)


class Integers(_OfNumbers):
    """Noise on integers."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """The type of signed integers and of decimals."""
        if not (dtype in INTEGERS or cells_of.is_whole_decimal(dtype)):
            raise self.refused(dtype, "columns of integers")
        if self.keeps_type and dtype in UNSIGNED:
            raise ParameterTypeError(f"noise makes negative numbers, which a column of {dtype} cannot hold: {AS_MECHANISM}")
        return dtype if self.keeps_type else pa.int64()

    def stand_in(self, value: Any) -> int:
        """An integer."""
        return check_integer("missing", value, low=INT64[0], high=INT64[1])

    def room(self, dtype: pa.DataType, n: int) -> Array | None:
        """Of int64; narrower integers are made of it."""
        return np.empty(n, np.int64) if self.result(dtype) == pa.int64() else None

    def draw(self, values: Array, dtype: pa.DataType, rng: Stream | None, threads: int | None, room: Array | None) -> Array:
        """The noisy integers; of narrower types, cut at their ends."""
        reports: Array = _call(self.mechanism)(values, rng=rng, threads=threads, out=room)
        found = self.result(dtype)
        if found not in SIGNED[:-1]:
            return reports
        limits = np.iinfo(cells_of.DTYPES[found])
        return np.clip(reports, limits.min, limits.max, out=reports).astype(limits.dtype)

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The integers."""
        found = self.result(dtype)
        make = cells_of.decimal_array if pa.types.is_decimal(found) else cells_of.array_of
        return cells_of.with_validity(make(reports, found), bitmap)


class OneBit(_OfNumbers):
    """One bit about a number."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """Bool."""
        if not self._is_number(dtype):
            raise self.refused(dtype, "columns of integers and floats")
        return pa.bool_()

    def stand_in(self, value: Any) -> float:
        """A number."""
        return check_real("missing", value, low=-LARGEST, high=LARGEST)

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The bits, packed."""
        return cells_of.with_validity(cells_of.bits_array(np.packbits(reports, bitorder="little"), n), bitmap)


class Answers(Form):
    """Yes or no."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """The type of the column."""
        if dtype != pa.bool_() and dtype not in INTEGERS:
            raise self.refused(dtype, "columns of truth values, or of integers 0 and 1")
        return dtype if self.keeps_type else pa.bool_()

    def read(self, cells: pa.Array) -> Read:
        """Packed bits of truth values, which are uint8; integers as they are, but for these."""
        nulls = cells_of.null_mask(cells)
        if cells.type == pa.bool_():
            return cells_of.bits_of(cells), nulls
        return self.prepared(cells_of.numbers_of(cells)), nulls

    def stand_in(self, value: Any) -> bool:
        """A truth value."""
        if not isinstance(value, bool | np.bool_):
            raise ParameterTypeError(f"missing must be True or False for {type(self.mechanism).__name__}, got {type(value).__name__}")
        return bool(value)

    @property
    def neutral(self) -> bool:
        return False

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:
        """Packed bits, or integers 0 and 1."""
        found = self.result(dtype)
        if found in INTEGERS:
            return cells_of.with_validity(cells_of.array_of(reports.astype(cells_of.DTYPES[found]), found), bitmap)
        packed = reports if reports.dtype == np.uint8 else np.packbits(reports, bitorder="little")
        return cells_of.with_validity(cells_of.bits_array(packed, n), bitmap)


class Codes(Form):
    """One of k categories, by its code or its label."""

    __slots__ = ()

    @property
    def k(self) -> int:
        """How many."""
        return int(self.mechanism.k) if hasattr(self.mechanism, "k") else len(self.mechanism.phi)

    def _check(self, dtype: pa.DataType) -> None:
        if dtype in INTEGERS or (self.mechanism.categories is not None and cells_of.is_text(dtype)):
            return
        if cells_of.is_text(dtype):
            raise self.refused(dtype, "columns of codes unless it is made by from_categories")
        raise self.refused(dtype, "columns of codes, which are integers, or of labels")

    def read(self, cells: pa.Array) -> Read:
        """Codes."""
        nulls = cells_of.null_mask(cells)
        if cells.type in INTEGERS:
            return self.prepared(cells_of.numbers_of(cells)), nulls
        if pa.types.is_dictionary(cells.type) and cells.dictionary.null_count:  # an entry of a dictionary may be null
            nulls = np.asarray(cells.dictionary.take(cells.indices).is_null().to_numpy(zero_copy_only=False))
        return cells_of.label_codes(cells, self.labels), nulls

    def stand_in(self, value: Any) -> int:
        """A code, or the label of one."""
        categories = self.mechanism.categories
        if isinstance(value, str):
            if categories is None or value not in categories:
                raise ParameterError('missing must be "refuse", "keep" or one of the categories')
            return int(categories.index(value))
        return check_integer("missing", value, low=0, high=self.k - 1)

    @property
    def neutral(self) -> int:
        return 0


class CategoryReports(Codes):
    """Reports that are categories themselves."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """The type of the column."""
        self._check(dtype)
        if dtype in INTEGERS:
            if self.k - 1 > np.iinfo(cells_of.DTYPES[dtype]).max:
                raise ParameterTypeError(f"a column of {dtype} does not hold the codes 0 to {self.k - 1}")
            return dtype if self.keeps_type else pa.int64()
        return cells_of.dictionary_type(dtype, self.k) if self.keeps_type else pa.int64()

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The codes, or their labels."""
        found = self.result(dtype)
        if cells_of.is_text(found):
            return cells_of.labels_array(reports, self.labels, found, bitmap)
        codes = reports.astype(cells_of.DTYPES[found], copy=False)
        return cells_of.with_validity(cells_of.array_of(codes, found), bitmap)


class PointReports(Codes):
    """The number of a point."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """Unsigned integers of 32 bits."""
        self._check(dtype)
        return pa.uint32()

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The numbers."""
        return cells_of.with_validity(cells_of.array_of(reports, pa.uint32()), bitmap)


class BitReports(Codes):
    """One bit about a category."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """Bool."""
        self._check(dtype)
        return pa.bool_()

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The bits, packed."""
        return cells_of.with_validity(cells_of.bits_array(np.packbits(reports, bitorder="little"), n), bitmap)


class RowReports(Codes):
    """Reports that are rows of bytes."""

    __slots__ = ()

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """Binary of a fixed width."""
        self._check(dtype)
        return pa.binary((self.k + 7) // 8)

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:  # noqa: ARG002
        """The rows."""
        return cells_of.with_validity(cells_of.array_of(reports, self.result(dtype)), bitmap)


class PairReports(Codes):
    """Reports of two fields."""

    __slots__ = ()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the reports."""
        return HASHING_REPORT if isinstance(self.mechanism, local.LocalHashing) else HADAMARD_REPORT

    def result(self, dtype: pa.DataType) -> pa.DataType:
        """A struct of the two fields."""
        self._check(dtype)
        names = self.dtype.names or ()
        return pa.struct([pa.field(name, pa.from_numpy_dtype(self.dtype[name]), nullable=False) for name in names])

    def write(self, reports: Array, dtype: pa.DataType, n: int, bitmap: pa.Buffer | None) -> pa.Array:
        """The two fields."""
        found = self.result(dtype)
        fields = [_field(np.ascontiguousarray(reports[field.name]), field.type) for field in found]
        return cells_of.with_validity(pa.StructArray.from_arrays(fields, fields=list(found)), bitmap) if n else pa.array([], found)


def _field(values: Array, dtype: pa.DataType) -> pa.Array:
    if dtype == pa.bool_():
        return cells_of.bits_array(np.packbits(values, bitorder="little"), len(values))
    return cells_of.array_of(values, dtype)


FORMS: tuple[tuple[type | tuple[type, ...], type[Form]], ...] = (
    ((mechanisms.Laplace, mechanisms.Gaussian, local.LocalLaplace, local.LocalGaussian), Reals),
    (
        (mechanisms.DiscreteLaplace, mechanisms.DiscreteGaussian, local.LocalDiscreteLaplace, local.LocalDiscreteGaussian),
        Integers,
    ),
    (local.BinaryResponse, Answers),
    (local.BoundedMean, OneBit),
    (local.KaryResponse, CategoryReports),
    (local.ProjectiveGeometryResponse, PointReports),
    (local.BinaryChannel, BitReports),
    ((local.UnaryEncoding, local.SubsetSelection), RowReports),
    ((local.LocalHashing, local.HadamardResponse), PairReports),
)
"""The form of each mechanism."""


def form_of(mechanism: Any, *, keeps_type: bool) -> Form:
    """The form of a mechanism.

    Raises
    ------
    ParameterTypeError
        If it is none that works on columns.
    """
    for kinds, form in FORMS:
        if isinstance(mechanism, kinds):
            if isinstance(mechanism, local.BinaryChannel) and callable(mechanism.phi):
                raise ParameterTypeError("a BinaryChannel with a callable phi takes arrays; give it a table, or call its privatize")
            categories = getattr(mechanism, "categories", None)
            return form(mechanism, keeps_type, None if categories is None else pa.array(categories, pa.large_string()))
    raise ParameterTypeError(
        f"mechanism must be one of dpcore.mechanisms, or a randomiser of single records of dpcore.local, got {type(mechanism).__name__}"
    )
