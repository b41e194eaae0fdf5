"""How a query reads its column: each row becomes one number or one code, which depends on that row alone."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore import _backend
from dpcore._dataclasses import dataclass
from dpcore.query.fields import SKIP
from dpcore.query.grids import ExactPoints, Points, needs_steps
from dpcore.query.units_of_answers import stepped_bounds
from dpcore.tables.formats.csv import NULLS
from dpcore.tables.rows import refused_cell
from dpcore.tables.types import plain, texts, times
from dpcore.tables.types.categories import value_type
from dpcore.tables.types.decimals import steps
from dpcore.tables.types.timed import sort_of
from dpcore.tables.types.values import ABSENT, REAL_TYPES, UNKNOWN_OR_SKIP, CellError, Codes, Numbers, are_int64, not_given
from dpcore.tables.types.whole_arrays import decoded

if TYPE_CHECKING:
    import numpy.typing as npt

    from dpcore.tables.rows import Rows
    from dpcore.tables.types.categories import Categories

    Array = npt.NDArray[Any]


class Encoder(Protocol):
    """The interface of the ways to read a query's column."""

    @property
    def wanted(self) -> str:
        """The types that `accepts` takes, in words."""

    def missing_keys(self) -> tuple[str, ...]:
        """Keys of the query that are not given, and that cells can call for."""

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether a column may have this type."""

    def for_type(self, dtype: pa.DataType | None) -> Self:
        """Return these cells for a column of this type; None if the format has no types."""

    def read(self, cells: pa.Array) -> Array:
        """One entry for each row; raises `CellError` at a cell that the job declares nothing for."""


class OfNumbers:
    """Base of the classes that read numbers."""

    __slots__ = ()

    @property
    def sort(self) -> str | None:
        """The sort of dates or times that the bounds are; None of numbers."""
        return sort_of(self._bound)

    @property
    def _bound(self) -> object:
        return None

    @property
    def wanted(self) -> str:
        """The types, listed."""
        if self.sort is not None:
            return times.wanted(self.sort)
        return f"one of {', '.join(map(str, (*REAL_TYPES, pa.bool_())))}, a decimal, or a dictionary of these"

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it is one of them."""
        if self.sort is not None:
            return times.holds(dtype, self.sort)
        return value_type(dtype) in REAL_TYPES or plain.is_more_than_numbers(value_type(dtype))

    def for_type(self, dtype: pa.DataType | None) -> Self:
        """For a column of this type: decimals, and integers that float64 does not hold, are then read as whole steps."""
        return self if dtype is None or self.sort is not None else self._in_steps(dtype)

    def _in_steps(self, dtype: pa.DataType) -> Self:  # noqa: ARG002
        return self


@dataclass(frozen=True, slots=True)
class Clamped(OfNumbers):
    """Numbers; nulls and NaN become `missing`.

    Attributes
    ----------
    bounds : tuple of float
        What the query declares; if they and `missing` are integers, integers keep their unit beyond 2^53.
    missing : float or None
        None refuses nulls and NaN.
    digits : int or None
        Of a column of decimals: bounds, `missing` and what is read count steps of 10^-digits.
    are_floats : bool
        Whether decimals are read as floats, because bounds are found among powers of two.
    """

    bounds: tuple[float, float]
    missing: float | None
    digits: int | None = None
    are_floats: bool = False

    @property
    def _bound(self) -> object:
        return self.bounds[0]

    def missing_keys(self) -> tuple[str, ...]:
        """`missing`."""
        return self._numbers.missing_keys(None)

    def _in_steps(self, dtype: pa.DataType) -> Clamped:
        if self.are_floats or self.digits is not None:
            return self
        bounds, missing, digits = stepped_bounds(dtype, self.bounds, self.missing)
        return replace(self, bounds=bounds, missing=missing, digits=digits)

    def read(self, cells: pa.Array) -> Array:
        """The numbers, without NaN, or the steps."""
        cells = as_numbers(cells, self.sort) if self.digits is None else steps(cells, self.digits)
        numbers = self._numbers.read(cells)
        if numbers.dtype.kind != "f":
            # A null has made floats of the integers of its piece, unless they are filled in as integers: it must not decide on other rows.
            return numbers if are_int64(*self.bounds, self.missing) else numbers.astype(np.float64)
        if not (absent := np.isnan(numbers)).any():
            return numbers
        if self.missing is None:
            raise self._numbers.refused(cells) or AssertionError
        return np.where(absent, np.float64(self.missing), numbers)

    def present(self, cells: pa.Array) -> Array:
        """True where there is a number: neither a null nor NaN."""
        if self.digits is not None:
            cells = steps(cells, self.digits)
            return np.asarray(cells.is_valid().to_numpy(zero_copy_only=False))
        cells = as_numbers(cells, self.sort)
        numbers = Numbers(REAL_TYPES, False, self.bounds, self.bounds[0]).read(cells)  # noqa: FBT003
        there = ~np.isnan(numbers) if numbers.dtype.kind == "f" else np.ones(len(numbers), np.bool_)
        return there & cells.is_valid().to_numpy(zero_copy_only=False) if cells.null_count else there

    def refused_null(self, absent: Array) -> CellError:
        """What is wrong with the first null."""
        return CellError(int(absent.argmax()), ABSENT)

    @property
    def _numbers(self) -> Numbers:
        return Numbers(REAL_TYPES, False, self.bounds, self.missing)  # noqa: FBT003


@dataclass(frozen=True, slots=True)
class Present(OfNumbers):
    """Whether a row has a number, for statistics that leave out rows without one."""

    reals: Clamped

    @property
    def _bound(self) -> object:
        return self.reals.bounds[0]

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: other rows do not count."""
        return ()

    def _in_steps(self, dtype: pa.DataType) -> Present:
        return replace(self, reals=self.reals.for_type(dtype))

    def read(self, cells: pa.Array) -> Array:
        """True where there is a number."""
        return self.reals.present(cells)


@dataclass(frozen=True, slots=True)
class NotNull:
    """Whether a row has a value of any type: neither a null nor NaN, and in a format without types none of the words for missing."""

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return "any type that is not nested"

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: other rows do not count."""
        return ()

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether a cell is one value."""
        return not (pa.types.is_nested(dtype) or pa.types.is_run_end_encoded(dtype))

    def for_type(self, dtype: pa.DataType | None) -> NotNull:  # noqa: ARG002
        """Return the same cells."""
        return self

    def read(self, cells: pa.Array) -> Array:
        """True where there is a value."""
        cells = decoded(cells)
        if cells.type == pa.float16():  # of which pyarrow 18 finds no NaN
            cells = cells.cast(pa.float32())
        absent = pc.is_null(cells, nan_is_null=True)
        if cells.type == pa.binary():
            absent = pc.or_(absent, pc.is_in(cells, value_set=pa.array([null.encode() for null in NULLS], pa.binary())))
        there: Array = ~absent.to_numpy(zero_copy_only=False)
        return there


@dataclass(frozen=True, slots=True)
class InRange(OfNumbers):
    """Whether the number is in [lower, upper]; a null or NaN is not."""

    lower: float
    upper: float
    exact: tuple[ExactPoints, ExactPoints] | None = None

    @property
    def _bound(self) -> object:
        return self.lower

    def _in_steps(self, dtype: pa.DataType) -> InRange:
        return replace(self, exact=exact_ends(dtype, self.lower, self.upper)) if needs_steps(dtype, (self.lower, self.upper)) else self

    def missing_keys(self) -> tuple[str, ...]:
        """Return nothing: other rows do not count."""
        return ()

    def read(self, cells: pa.Array) -> Array:
        """True where the row counts."""
        if self.exact is not None:
            return between(cells, *self.exact)
        cells = as_numbers(cells, self.sort)
        numbers = Numbers(REAL_TYPES, False, (self.lower, self.upper), 0).read(cells)  # noqa: FBT003
        if numbers.dtype.kind == "f":
            # Narrow floats would be compared in their own precision here, and in float64 where a null has widened the piece: then one
            # row's null would decide on other rows.
            numbers = numbers.astype(np.float64, copy=False)
        inside = (numbers >= self.lower) & (numbers <= self.upper)
        return inside & cells.is_valid().to_numpy(zero_copy_only=False) if cells.null_count else inside


def exact_ends(dtype: pa.DataType, lower: float, upper: float) -> tuple[ExactPoints, ExactPoints]:
    """Both ends of an interval, for a column that is compared in steps."""
    return ExactPoints.of((lower,), dtype, counts_equal=True), ExactPoints.of((upper,), dtype, counts_equal=False)


def between(cells: pa.Array, lower: ExactPoints, upper: ExactPoints) -> Array:
    """Where cells lie between two ends, which belong to them."""
    (above, absent), (beyond, _) = lower.places(cells), upper.places(cells)
    inside: Array = (above == 1) & (beyond == 0)
    return inside if absent is None else inside & ~absent


def _exactly(reals: Clamped, exact: ExactPoints, cells: pa.Array, missing: int | None) -> Array:
    """Places among points, with that of `missing` where a cell is null."""
    places, absent = exact.places(cells)
    if absent is None:
        return places
    if missing is None:
        raise reals.refused_null(absent)
    return np.where(absent, np.intp(missing), places)


@dataclass(frozen=True, slots=True)
class Bins(OfNumbers):
    """The number of the bin between `edges` that holds a number; numbers outside count in the first or last bin.

    Bin i is [edges[i], edges[i+1]), the last one with its right edge. With `skip` a row without a number has the code `size`.
    """

    reals: Clamped
    edges: tuple[float, ...]
    _inner: Points = field(repr=False)
    skip: bool = False
    exact: ExactPoints | None = field(default=None, repr=False)

    @classmethod
    def between(cls, edges: tuple[float, ...], missing: float | None, *, skip: bool = False) -> Bins:
        """Bins between these edges."""
        return cls(Clamped((edges[0], edges[-1]), edges[0] if skip else missing), edges, Points(edges[1:-1]), skip)

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    @property
    def _bound(self) -> object:
        return self.edges[0]

    def _in_steps(self, dtype: pa.DataType) -> Bins:
        if self.reals.are_floats or not needs_steps(dtype, self.edges[1:-1]):
            return self
        return replace(self, exact=ExactPoints.of(self.edges[1:-1], dtype, counts_equal=True))

    def missing_keys(self) -> tuple[str, ...]:
        """Return the keys that the numbers lack."""
        return self.reals.missing_keys()

    def read(self, cells: pa.Array) -> Array:
        """The number of each row's bin."""
        if self.exact is not None:
            return _exactly(self.reals, self.exact, cells, self._of_missing)
        codes = self._inner.not_above(self.reals.read(cells))
        return _skipped(codes, self.reals.present(cells), self.size) if self.skip else codes

    @property
    def _of_missing(self) -> int | None:
        """The code of rows without a number; None if there must be none."""
        if self.skip or self.reals.missing is None:
            return self.size if self.skip else None
        return int(self._inner.not_above(np.array([self.reals.missing]))[0])


@dataclass(frozen=True, slots=True)
class Grid(OfNumbers):
    """The first point of a grid that is not below the number; the last point if all are; `size` for rows that are skipped."""

    reals: Clamped
    grid: tuple[float, ...]
    _lower: Points = field(repr=False)
    skip: bool = False
    exact: ExactPoints | None = field(default=None, repr=False)

    @classmethod
    def of(cls, grid: tuple[float, ...], missing: float | None, *, skip: bool = False, are_floats: bool = False) -> Grid:
        """Points of this grid."""
        reals = Clamped((grid[0], grid[-1]), grid[0] if skip else missing, are_floats=are_floats)
        return cls(reals, grid, Points(grid[:-1]), skip)

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self.grid)

    @property
    def _bound(self) -> object:
        return self.grid[0]

    def _in_steps(self, dtype: pa.DataType) -> Grid:
        if self.reals.are_floats or not needs_steps(dtype, self.grid[:-1]):
            return self
        return replace(self, exact=ExactPoints.of(self.grid[:-1], dtype, counts_equal=False))

    def missing_keys(self) -> tuple[str, ...]:
        """Return the keys that the numbers lack."""
        return self.reals.missing_keys()

    def read(self, cells: pa.Array) -> Array:
        """The number of each row's point."""
        if self.exact is not None:
            return _exactly(self.reals, self.exact, cells, self._of_missing)
        codes = self._lower.below(self.reals.read(cells))
        return _skipped(codes, self.reals.present(cells), self.size) if self.skip else codes

    @property
    def _of_missing(self) -> int | None:
        """The code of rows without a number; None if there must be none."""
        if self.skip or self.reals.missing is None:
            return self.size if self.skip else None
        return int(self._lower.below(np.array([self.reals.missing]))[0])


@dataclass(frozen=True, slots=True)
class Categorical:
    """Codes 0 … k − 1 of declared categories.

    Attributes
    ----------
    categories : Categories
        The declared ones.
    missing, unknown : str, int or None
        Categories that stand for nulls, and for other values; `SKIP`, unless it is a category, gives them the code k, which counts nowhere.
    skip : bool
        Whether a null or another value has the code k, instead of being refused.
    """

    categories: Categories
    missing: object = None
    unknown: object = None
    skip: bool = False

    @property
    def size(self) -> int:
        """Number of categories."""
        return self.categories.k

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return self.categories.wanted

    def missing_keys(self) -> tuple[str, ...]:
        """`missing` and `unknown`, unless such rows count nowhere."""
        return () if self.skip else not_given(missing=self.missing, unknown=self.unknown)

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it can hold the categories."""
        return self.categories.accepts(dtype)

    def for_type(self, dtype: pa.DataType | None) -> Categorical:
        """With categories of the column's type."""
        return replace(self, categories=self.categories.for_type(dtype))

    def read(self, cells: pa.Array) -> Array:
        """The codes."""
        codes, absent = self.categories.codes(cells)
        if self.skip:
            codes = self._with(codes, self.size)
            return codes if absent is None else np.where(absent, np.int64(self.size), codes)
        missing, unknown = self._code(self.missing), self._code(self.unknown)
        if absent is not None:
            if missing is None:
                raise self._refused(cells, missing, unknown)
            codes = np.where(absent, np.int64(missing if missing < self.size else 0), codes)
        if unknown is None and _backend.first_outside(codes, self.size, 1) >= 0:
            raise self._refused(cells, missing, unknown)
        codes = codes if unknown is None else self._with(codes, unknown)
        return codes if absent is None or missing != self.size else np.where(absent, np.int64(self.size), codes)

    def _code(self, value: object) -> int | None:
        """The code of a category, or of what counts nowhere."""
        code = self.categories.code(value)
        return self.size if code is None and value == SKIP else code

    def _with(self, codes: Array, other: int) -> Array:
        """The codes, with `other` for what is no category."""
        if _backend.first_outside(codes, self.size, 1) < 0:
            return codes
        return np.where((codes < 0) | (codes >= self.size), np.int64(other), codes)

    def _refused(self, cells: pa.Array, missing: int | None, unknown: int | None) -> CellError:
        found = Codes(self.categories, missing, unknown).refused(cells, UNKNOWN_OR_SKIP)
        if found is None:
            raise AssertionError("no cell is refused")
        return found


def _skipped(codes: Array, present: Array, code: int) -> Array:
    """The codes, with this one for rows that are left out."""
    return codes if present.all() else np.where(present, codes, np.intp(code))


def read_column(rows: Rows, name: str, cells: Encoder, *, curator: bool = False) -> Array:
    """Read a column as `cells` do; raises `DataError` at a cell that the job declares nothing for, with its position for a curator."""
    try:
        return cells.read(rows.batch.column(name))
    except CellError as error:
        raise refused_cell(rows, CellError(error.row, error.problem, name), curator=curator) from None


def as_numbers(cells: pa.Array, sort: str | None = None) -> pa.Array:
    """Numbers of other types than theirs, and those that text contains; with a sort, those of dates or times."""
    if sort is not None:
        return times.numbers(cells, sort)
    return texts.reals(cells) if cells.type == pa.binary() else plain.numbers(cells)
