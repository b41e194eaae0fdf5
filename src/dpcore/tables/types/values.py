"""Turns Arrow columns into the NumPy arrays that mechanisms take, and fills missing cells as the job declares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import DataError
from dpcore.tables.fields import INT64_MAX, INT64_MIN
from dpcore.tables.types import texts
from dpcore.tables.types.categories import INTEGER_TYPES, Categories, integer_view, null_mask
from dpcore.tables.types.slices import stored

if TYPE_CHECKING:
    import numpy.typing as npt

    Mask = npt.NDArray[np.bool_]

REAL_TYPES = (pa.float16(), pa.float32(), pa.float64(), *INTEGER_TYPES)
FLOAT_DTYPES = {pa.float16(): np.float16, pa.float32(): np.float32, pa.float64(): np.float64}
"""A DataType's own to_pandas_dtype needs pandas in older pyarrow."""


IN_WORDS = 'If the answers are words, declare them, for example categories = ["no", "yes"]: the second one counts as true'
NO_ANSWER = f"null or neither true nor false, and the job declares no `missing` for this column. {IN_WORDS}"
"""Of a cell of a CSV; what is written in it, if anything, makes no difference to the message."""
ADVICE = 'missing = "skip" leaves such rows out of the result; a value in their place counts like an answer and moves the result'
ABSENT = f"empty or not a number, and the job declares no `missing` for this column: {ADVICE}"
NULL = f"null, and the job declares no `missing` for this column: {ADVICE}"

UNKNOWN = "an unknown that is one of the categories stands for such cells"
"""What to do about a cell that is no category."""
UNKNOWN_OR_SKIP = f'unknown = "skip" leaves such rows out of the result; {UNKNOWN}'


class CellError(DataError):
    """A cell that the column's declaration does not cover; `row` counts from the start of the array."""

    def __init__(self, row: int, problem: str, column: str | None = None) -> None:
        super().__init__(f"row {row}: {problem}")
        self.row = row
        self.problem = problem
        self.column = column


class Values(Protocol):
    """Converts the cells of a column to the input of a mechanism.

    Cells of type binary are text of a format without types; what does not parse is missing. With a `missing` and an `unknown` where
    `lacks` names them, no cell can be refused.
    """

    OF_TEXT: ClassVar[str]
    """What counts as missing in a format without types, in words; empty if nothing but what is empty does."""

    @property
    def wanted(self) -> str:
        """The types that `accepts` takes, in words."""

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether a column may have this type."""

    def missing_keys(self, dtype: pa.DataType | None) -> tuple[str, ...]:
        """Keys of the job that are not given, and that cells of a column of this type can call for; None is text."""

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> npt.NDArray[Any]:
        """The mechanism's input; raises `CellError` at a missing cell that the job declares nothing for.

        Suppressed cells are read as missing ones, which the job then declares something for.
        """

    def refused(self, cells: pa.Array) -> CellError | None:
        """Return what is wrong with the first cell that the declaration does not cover, after the mechanism has refused the cells."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Real numbers, or integers; the mechanism clamps them.

    Attributes
    ----------
    types : tuple of pyarrow.DataType
        That the column may have.
    are_integers : bool
        Whether text has to be a whole number.
    bounds : tuple of float
        What the job declares; if all are integers, integers keep their unit beyond 2^53.
    missing : float or None
        Stands for nulls; the mechanism handles NaN.
    """

    OF_TEXT: ClassVar[str] = "what is no number, such as €12 or 1.234,50, counts as missing"

    types: tuple[pa.DataType, ...]
    are_integers: bool
    bounds: tuple[float, float]
    missing: float | None

    @property
    def wanted(self) -> str:
        """The types, listed."""
        return "one of " + ", ".join(map(str, self.types))

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it is one of them."""
        return dtype in self.types

    def missing_keys(self, dtype: pa.DataType | None) -> tuple[str, ...]:  # noqa: ARG002
        """`missing`: any column can hold nulls."""
        return ("missing",) if self.missing is None else ()

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> npt.NDArray[Any]:
        """The column's buffer, or a copy in which nulls are filled."""
        cells = self._parsed(cells)
        numbers = _view(cells)
        absent = _either(null_mask(cells), suppressed)
        exact = numbers.dtype.kind != "f" and are_int64(*self.bounds, self.missing)
        if absent is not None and self.missing is None:
            raise self._first_absent(numbers, absent)
        if exact and numbers.dtype == np.uint64:
            # Beyond every int64 bound they are the same, and would turn negative.
            numbers = np.minimum(numbers, np.uint64(INT64_MAX)).view(np.int64)
        elif numbers.dtype == np.uint64:
            numbers = numbers.astype(np.float64)
        if absent is not None:
            numbers = numbers.astype(np.int64 if exact else np.float64)
            numbers[absent] = int(self.missing) if exact else self.missing  # type: ignore[arg-type]
        return numbers

    def refused(self, cells: pa.Array) -> CellError | None:
        """The first NaN."""
        numbers = _view(self._parsed(cells))
        absent = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(len(numbers), np.bool_)
        return self._first_absent(numbers, absent) if absent.any() else None

    def _parsed(self, cells: pa.Array) -> pa.Array:
        if cells.type != pa.binary():
            return cells
        return texts.integers(cells) if self.are_integers else texts.reals(cells)

    def _first_absent(self, numbers: npt.NDArray[Any], nulls: npt.NDArray[np.bool_]) -> CellError:
        # What the buffer holds under a null is arbitrary, a NaN included.
        absent = nulls | np.isnan(numbers) if numbers.dtype.kind == "f" else nulls
        return CellError(int(absent.argmax()), ABSENT)


@dataclass(frozen=True, slots=True)
class YesOrNo:
    """Booleans, or integers 0 and 1.

    Attributes
    ----------
    missing, unknown : bool or None
        Stand for nulls, and for other integers; the mechanism uses the latter.
    """

    OF_TEXT: ClassVar[str] = f"only true, false, 1 and 0 are answers, and words such as yes and no count as missing. {IN_WORDS}"

    missing: bool | None
    unknown: bool | None

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return f"bool, or an integer type with 0 and 1. {IN_WORDS}"

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it is one of them."""
        return dtype == pa.bool_() or dtype in INTEGER_TYPES

    def missing_keys(self, dtype: pa.DataType | None) -> tuple[str, ...]:
        """`missing`, and `unknown` where a cell can be another integer."""
        return not_given(missing=self.missing, unknown=False if dtype == pa.bool_() else self.unknown)

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> npt.NDArray[Any]:
        """The answers, nulls filled."""
        text = cells
        cells = texts.answers(cells) if cells.type == pa.binary() else cells
        answers = _unpacked(cells) if cells.type == pa.bool_() else _signed(cells)
        absent = _either(null_mask(cells), suppressed)
        if absent is None:
            return answers
        if self.missing is None:
            raise self.refused(text) or CellError(int(absent.argmax()), NULL)
        return np.where(absent, answers.dtype.type(self.missing), answers)

    def refused(self, cells: pa.Array) -> CellError | None:
        """The first null or other integer that nothing stands for."""
        null = NO_ANSWER if cells.type == pa.binary() else NULL
        cells = texts.answers(cells) if cells.type == pa.binary() else cells
        absent = null_mask(cells)
        nulls = np.zeros(len(cells), np.bool_) if absent is None else absent
        other = np.zeros(len(cells), np.bool_) if cells.type == pa.bool_() else ~np.isin(_signed(cells), (0, 1)) & ~nulls
        problem = "neither 0 nor 1, and the job declares no `unknown` for this column: unknown = false or true stands for such cells"
        return _first(nulls if self.missing is None else None, other if self.unknown is None else None, problem, null)


@dataclass(frozen=True, slots=True)
class Codes:
    """Categories, as codes 0 … k − 1.

    Attributes
    ----------
    categories : Categories
        The declared ones.
    missing, unknown : int or None
        Codes that stand for nulls, and for other values; the mechanism uses the latter.
    """

    OF_TEXT: ClassVar[str] = ""

    categories: Categories
    missing: int | None
    unknown: int | None

    @property
    def wanted(self) -> str:
        """The types, in words."""
        return self.categories.wanted_to_store

    def accepts(self, dtype: pa.DataType) -> bool:
        """Whether it can hold the categories."""
        return self.categories.are_stored_as(dtype)

    def missing_keys(self, dtype: pa.DataType | None) -> tuple[str, ...]:  # noqa: ARG002
        """`missing` and `unknown`."""
        return not_given(missing=self.missing, unknown=self.unknown)

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> npt.NDArray[Any]:
        codes, nulls = self.categories.codes(cells)
        absent = _either(nulls, suppressed)
        if absent is None:
            return codes
        if self.missing is None:
            raise self.refused(cells) or CellError(int(absent.argmax()), NULL)
        return np.where(absent, np.int32(self.missing), codes)

    def refused(self, cells: pa.Array, advice: str = UNKNOWN) -> CellError | None:
        """The first null or other value that nothing stands for."""
        codes, absent = self.categories.codes(cells)
        nulls = np.zeros(len(codes), np.bool_) if absent is None else absent
        other = ((codes < 0) | (codes >= self.categories.k)) & ~nulls
        problem = f"not one of the declared categories, and the job declares no `unknown` for this column: {advice}"
        return _first(nulls if self.missing is None else None, other if self.unknown is None else None, problem)


def not_given(**keys: object) -> tuple[str, ...]:
    """Names of those that are None."""
    return tuple(key for key, value in keys.items() if value is None)


def _either(nulls: Mask | None, suppressed: Mask | None) -> Mask | None:
    if nulls is None or suppressed is None:
        return suppressed if nulls is None else nulls
    return nulls | suppressed


def _first(nulls: npt.NDArray[np.bool_] | None, other: npt.NDArray[np.bool_] | None, problem: str, null: str = NULL) -> CellError | None:
    """The first of the cells in either mask."""
    first = int(nulls.argmax()) if nulls is not None and nulls.any() else None
    odd = int(other.argmax()) if other is not None and other.any() else None
    if odd is not None and (first is None or odd < first):
        return CellError(odd, problem)
    return None if first is None else CellError(first, null)


def _view(cells: pa.Array) -> npt.NDArray[Any]:
    """The values buffer of a numeric array, without a copy; what it holds under a null is arbitrary."""
    return integer_view(cells) if cells.type in INTEGER_TYPES else stored(cells, FLOAT_DTYPES[cells.type])


def _signed(cells: pa.Array) -> npt.NDArray[Any]:
    """Integers in a dtype that mechanisms take; neither 0 nor 1 becomes either."""
    numbers = integer_view(cells)
    return np.minimum(numbers, np.uint64(2)).view(np.int64) if numbers.dtype == np.uint64 else numbers


def _unpacked(cells: pa.Array) -> npt.NDArray[np.bool_]:
    packed = np.frombuffer(cells.buffers()[1], np.uint8)
    first, behind = cells.offset // 8, (cells.offset + len(cells) + 7) // 8
    bits = np.unpackbits(packed[first:behind], bitorder="little")
    return bits[cells.offset % 8 : cells.offset % 8 + len(cells)].view(np.bool_)


def are_int64(*numbers: float | None) -> bool:
    """Whether all that are given are whole numbers of 64 bits."""
    return all(number is None or (float(number).is_integer() and INT64_MIN <= number <= INT64_MAX) for number in numbers)


# Columns of which some cells have no answer: `missing = "skip"`


class NumbersOrNone(Numbers):
    """Numbers, and which of them there are; `missing` replaces the others."""

    __slots__ = ()

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> Any:
        """A pair: int64 where bounds and stand-in are whole, else float64; and which cells have a number."""
        cells = self._parsed(cells)
        exact = are_int64(*self.bounds, self.missing)
        numbers = super().read(cells, suppressed)
        # The dtype follows from the declaration alone, so that no cell depends on others.
        numbers = numbers.astype(np.int64 if exact and numbers.dtype.kind != "f" else np.float64, copy=False)
        absent = _either(null_mask(cells), suppressed)
        if numbers.dtype.kind == "f":
            absent = _either(np.isnan(numbers), absent)
        return numbers, np.ones(len(numbers), np.bool_) if absent is None else ~absent


class AnswersOrNone(YesOrNo):
    """Answers as 0 and 1, and which of them there are."""

    __slots__ = ()

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> Any:
        """A pair: float64, and which cells have an answer."""
        text = cells
        cells = texts.answers(cells) if cells.type == pa.binary() else cells
        answers = _unpacked(cells) if cells.type == pa.bool_() else _signed(cells)
        absent = _either(null_mask(cells), suppressed)
        answered = np.ones(len(answers), np.bool_) if absent is None else ~absent
        if self.unknown is None and answers.dtype != np.bool_ and (answered & ~np.isin(answers, (0, 1))).any():
            raise self.refused(text) or AssertionError("an answer is unknown")
        yes = answers == 1 if not self.unknown else answers != 0
        return yes.astype(np.float64), answered


@dataclass(frozen=True, slots=True)
class CodesOrNone(Codes):
    """Codes, of which k stands for no answer; with a table, its number for each code and whether there is one.

    Attributes
    ----------
    table : tuple of float or None
        A number for each category.
    """

    table: tuple[float, ...] | None = None

    def read(self, cells: pa.Array, suppressed: Mask | None = None) -> Any:
        """Codes as int32, or a pair of numbers and of which cells have one."""
        codes, nulls = self.categories.codes(cells)
        absent = _either(nulls, suppressed)
        absent = np.zeros(len(codes), np.bool_) if absent is None else absent
        other = ((codes < 0) | (codes >= self.categories.k)) & ~absent
        if self.unknown is None and other.any():
            raise self.refused(cells) or AssertionError("a category is unknown")
        known = np.where(other, 0 if self.unknown is None else self.unknown, codes)
        known = np.where(absent, self.categories.k, known).astype(np.int32)
        if self.table is None:
            return known
        return np.array([*self.table, self.table[0]])[known], ~absent
