"""What is made of the rows of one unit: aggregates that neither fail nor depend on the order of rows, and their exact arithmetic.

The order in which a database meets the rows of a unit depends on the rows of other units, so an aggregate has to be a function of the
multiset of its own rows. And it cannot be wrapped in `TRY`: one that fails would end the statement for all units. So arguments are made
before, each for its row (`program.py`), zeros lose their sign, NaN is NULL, and the database gets only what is listed here. Sums are sums
of integers of 64 bits in 128, which 2^62 rows cannot overflow: integers as they are, decimals in words of 64 bits, floats in steps of the
grid of `dpcore.sums`. What is made of a sum (a mean, a float, a number of 64 bits) is rounded once, here, and NULL if it does not fit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcore._dataclasses import dataclass
from dpcore.sums import LARGEST_BOUND, SMALLEST_BOUND, grid_of
from dpcore.tables.sql.allowed import INTEGERS, kind_of
from dpcore.tables.sql.arrow_values import readable
from dpcore.tables.types.slices import stored, where

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from dpcore.tables.sql.syntax import Aggregation

SUM = "CAST(sum({0}) AS DECIMAL(38, 0))"
MODE = "list_sort(list_transform(map_entries(histogram({0})), lambda e: {{'n': -CAST(e.value AS BIGINT), 'k': e.key}}))[1].k"
"""The least of the most frequent values. The database's own `mode` takes the one that comes first."""
MIDDLES = ("list_sort(list({0}))[(count({0}) + 1) // 2]", "list_sort(list({0}))[count({0}) // 2 + 1]")
PLAIN = {
    "count_star": "count(*)",
    "count": "count({0})",
    **{name: f"{name}({{0}})" for name in ("min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor")},
    "mode": MODE,
    "arg_min": "(min({{'b': {1}, 'a': {0}}}) FILTER (WHERE {1} IS NOT NULL)).a",
    # Among equal b the greatest a; nothing is less than a value.
    "arg_max": "(max({{'b': {1}, 'n': {0} IS NOT NULL, 'a': {0}}}) FILTER (WHERE {1} IS NOT NULL)).a",
}
"""How aggregates are written for the database; "{0}" is the first argument."""
DISTINCT = "count(DISTINCT {0})"
WIDEST = 18
"""Digits of decimals whose steps 64 bits hold."""
MOST_DIGITS = 38
EXACT = 2**53
FLOATS = {"FLOAT", "DOUBLE"}


class AggregateError(Exception):
    """An aggregate that does not fit the types of its arguments; the message says why."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of an aggregate.

    Attributes
    ----------
    name : str
        Its column, of the table or derived.
    kind : str
        The database's type.
    is_column : bool
        Whether it is a column of the table as it is, which no expression computes.
    """

    name: str
    kind: str
    is_column: bool

    def cells(self, batch: pa.RecordBatch) -> pa.Array:
        """The values of some rows."""
        cells = batch.column(self.name)
        cells = readable(cells, self.kind) if self.is_column or kind_of(self.kind) == "DECIMAL" else cells
        return _one_zero(cells) if pa.types.is_floating(cells.type) else cells


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A column that the database makes as it stands.

    Attributes
    ----------
    arguments : tuple of Argument
        What it is made of.
    written : str
        For the database.
    """

    arguments: tuple[Argument, ...]
    written: str = ""

    @property
    def expressions(self) -> tuple[str, ...]:
        """What the database computes, of the columns of `encoded`, which "{0}", "{1}" ... stand for."""
        return (self.written,)

    @property
    def width(self) -> int:
        """How many columns `encoded` gives."""
        return len(self.arguments)

    def encoded(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns that the database gets, of some rows."""
        return [each.cells(batch) for each in self.arguments]

    def finished(self, found: Sequence[pa.Array]) -> pa.Array:
        """The column, of what the database has found."""
        return found[0]


@dataclass(frozen=True, slots=True)
class Middle(Aggregate):
    """The median: the mean of the two values in the middle, rounded once to a float64."""

    @property
    def expressions(self) -> tuple[str, ...]:
        return MIDDLES

    def encoded(self, batch: pa.RecordBatch) -> list[pa.Array]:
        (cells,) = Aggregate.encoded(self, batch)
        return [_steps(cells)[0] if pa.types.is_decimal(cells.type) and cells.type.precision <= WIDEST else cells]

    def finished(self, found: Sequence[pa.Array]) -> pa.Array:
        low = found[0]
        if pa.types.is_floating(low.type):
            # Halves first where the sum would overflow: halving such numbers is exact.
            a, b = (each.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False) for each in found)
            with np.errstate(over="ignore", invalid="ignore"):
                middle = np.where(np.maximum(np.abs(a), np.abs(b)) > 2.0**1022, a / 2 + b / 2, (a + b) / 2)
            return pa.array(middle, mask=np.asarray(low.is_null()))
        absent = np.asarray(low.is_null())
        unit = 2 * 10 ** _scale_of(self.arguments[0].kind)
        if pa.types.is_decimal(low.type):
            sums, small = np.zeros(len(absent), np.int64), np.zeros(len(absent), np.bool_)
        else:
            a, b = (each.fill_null(0).to_numpy() for each in found)
            small = (a < EXACT // 2) & (b < EXACT // 2) & (a > -EXACT // 2) & (b > -EXACT // 2)
            sums = np.where(small, a, 0).astype(np.int64) + np.where(small, b, 0).astype(np.int64)

        def exact(places: npt.NDArray[np.intp]) -> list[int]:
            ends = [_unscaled(each.take(pa.array(places))) for each in found]
            return [sum(pair) for pair in zip(*ends, strict=True)]

        ones = np.ones(len(absent), np.int64)
        return pa.array(_divided(sums, small & ~absent, absent, ones, unit, exact), mask=absent)


@dataclass(frozen=True, slots=True)
class Total(Aggregate):
    """A sum, or with `mean` that divided by the number of its terms.

    Attributes
    ----------
    mean : bool
        Which of the two.
    bounds : tuple of float or None
        Between which each term is clamped; those of floats must be known.
    """

    mean: bool = False
    bounds: tuple[float, float] | None = None

    @property
    def expressions(self) -> tuple[str, ...]:
        words = (SUM, SUM.replace("{0}", "{1}")) if self._is_wide else (SUM,)
        return (*words, "count({0})") if self.mean else words

    @property
    def width(self) -> int:
        return 2 if self._is_wide else 1

    @property
    def _is_wide(self) -> bool:
        """Whether its terms are decimals in two words."""
        kind = self.arguments[0].kind
        return self.bounds is None and kind.startswith("DECIMAL") and int(kind[8:].split(",")[0]) > WIDEST

    @property
    def _grid(self) -> float:
        low, high = self.bounds or (0.0, 1.0)
        return grid_of(max(abs(low), abs(high)))

    def encoded(self, batch: pa.RecordBatch) -> list[pa.Array]:
        (cells,) = Aggregate.encoded(self, batch)
        if self.bounds is None:
            return _steps(cells)
        numbers = cells.cast(pa.float64(), safe=False)
        clamped = np.clip(numbers.fill_null(0.0).to_numpy(zero_copy_only=False), *self.bounds)
        return [pa.array(np.rint(clamped / self._grid).astype(np.int64), mask=np.asarray(numbers.is_null()))]

    def finished(self, found: Sequence[pa.Array]) -> pa.Array:
        words, counts = (found[:-1], found[-1]) if self.mean else (found, None)
        scale = _scale_of(self.arguments[0].kind) if self.bounds is None else 0
        if counts is not None or self.bounds is not None:
            ones = counts.fill_null(1).to_numpy() if counts is not None else np.ones(len(words[0]), np.int64)
            grid = 1.0 if self.bounds is None else self._grid
            return _quotients(words, np.maximum(ones, 1), 10**scale, grid)
        if self.arguments[0].kind.startswith("DECIMAL"):
            return _decimals(words, scale)
        return _integers(words[0])


def aggregate_of(found: Aggregation, arguments: tuple[Argument, ...]) -> Aggregate:
    """The aggregate that an expression asks.

    Raises
    ------
    AggregateError
        If it takes no arguments of these types.
    """
    name, kinds = found.name, [kind_of(each.kind) for each in arguments]
    numbers, floats = {*INTEGERS, *FLOATS, "DECIMAL"}, FLOATS & set(kinds)
    if name in {"bool_and", "bool_or"} and kinds != ["BOOLEAN"]:
        raise AggregateError(f"calls {name!r} with a {kinds[0]}; write a condition, as in {name}(ward = 'ICU')")
    if name.startswith("bit_") and kinds[0] not in INTEGERS:
        raise AggregateError(f"calls {name!r} with a {kinds[0]}; it is for integers")
    if name in {"sum", "avg", "median"} and kinds[0] not in (numbers if name != "sum" else {*numbers, "BOOLEAN"}):
        cast = f", as in {name}(CAST(x AS DECIMAL(18, 2)))" if kinds[0] == "VARCHAR" else ""
        mend = f"; use quantile_disc({arguments[0].name}, 0.5)" if name == "median" else cast
        raise AggregateError(f"calls {name!r} with a {kinds[0]}; it is for numbers{mend}")
    if name in {"sum", "avg"} and floats:
        key = "sum" if name == "sum" else "mean"
        text = f'is a {key} of floats, which needs bounds of its terms: {{ {key} = "{arguments[0].name}", lower = 0, upper = 100 }}'
        raise AggregateError(f"{text}; those of integers and decimals need none, as in {name}(CAST(x AS DECIMAL(18, 2)))")
    if name in {"sum", "avg"}:
        return Total(arguments, mean=name == "avg")
    if name == "median":
        return Middle(arguments)
    return Aggregate(arguments, DISTINCT if found.distinct else PLAIN[name])


def quantile_of(argument: Argument, level: str) -> Aggregate:
    """The value of rank ⌈level·n⌉ among the n values of a unit, the least one at level 0; the level is written as a number."""
    try:
        number = float(level)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 1:
        raise AggregateError(f"calls 'quantile_disc' with the level {level or 'of an expression'}; it takes a number in [0, 1]")
    return Aggregate((argument,), f"quantile_disc({{0}}, {number!r})")


def bounded(argument: Argument, lower: float, upper: float, *, mean: bool) -> Total:
    """A sum or mean of numbers that are clamped, in steps of the grid of `dpcore.sums`, rounded once."""
    if kind_of(argument.kind) not in {*INTEGERS, *FLOATS, "DECIMAL"}:
        cast = f', as in {{ {"mean" if mean else "sum"} = "CAST(x AS DOUBLE)" }}' if argument.kind == "VARCHAR" else ""
        raise AggregateError(f"is of type {argument.kind}; bounds are for sums and means of numbers{cast}")
    largest = max(abs(lower), abs(upper))
    if not SMALLEST_BOUND <= largest <= LARGEST_BOUND:
        span = f"[{SMALLEST_BOUND:.3g}, {LARGEST_BOUND:.3g}]"
        raise AggregateError(f"has lower = {lower!r} and upper = {upper!r}; the larger magnitude of the two must be in {span}")
    return Total((argument,), mean=mean, bounds=(lower, upper))


def _one_zero(cells: pa.Array) -> pa.Array:
    """Floats as float64, with one zero and without NaN."""
    numbers = pc.add_checked(cells.cast(pa.float64()), 0.0)
    nan = pc.is_nan(numbers)
    return where(pc.invert(nan), numbers) if pc.any(nan).as_py() else numbers


def _scale_of(kind: str) -> int:
    return int(kind[:-1].split(",")[1]) if kind.startswith("DECIMAL") else 0


def _steps(cells: pa.Array) -> list[pa.Array]:
    """Integers as they are, and decimals as their steps: one word of 64 bits, or the upper and the lower one."""
    if pa.types.is_boolean(cells.type):
        return [cells.cast(pa.int8())]
    if not pa.types.is_decimal(cells.type):
        return [cells]
    words = _limbs(cells)
    mask = np.asarray(cells.is_null())
    if cells.type.precision <= WIDEST:
        return [pa.array(np.ascontiguousarray(words[:, 0]), mask=mask)]
    low = np.ascontiguousarray(words[:, 0]).view(np.uint64)
    return [pa.array(np.ascontiguousarray(words[:, 1]), mask=mask), pa.array(low, mask=mask)]


def _limbs(cells: pa.Array) -> npt.NDArray[np.int64]:
    """Decimals of 128 bits as their lower and upper words."""
    return stored(cells, np.int64, words=2)


def _unscaled(cells: pa.Array) -> list[int]:
    """Integers, and decimals as their steps; there are no nulls."""
    if not pa.types.is_decimal(cells.type):
        return list(cells.to_pylist())
    data = memoryview(cells.buffers()[1])[16 * cells.offset :]
    return [int.from_bytes(data[16 * row : 16 * row + 16], "little", signed=True) for row in range(len(cells))]


def _words(sums: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """The lower words of sums as signed numbers, where these are the sums, and where there is none."""
    words = _limbs(sums)
    absent = np.asarray(sums.is_null())
    return words[:, 0], (words[:, 1] == words[:, 0] >> 63) & ~absent, absent


def _integers(sums: pa.Array) -> pa.Array:
    low, fits, _ = _words(sums)
    return pa.array(low, pa.int64(), mask=~fits)


def _exact(words: Sequence[pa.Array], places: npt.NDArray[np.intp]) -> list[int]:
    """Sums at some places as integers of any size."""
    taken = [word.take(pa.array(places)).to_pylist() for word in words]
    return [sum(int(part) << (64 * power) for power, part in enumerate(reversed(parts))) for parts in zip(*taken, strict=True)]


def _decimals(words: Sequence[pa.Array], scale: int) -> pa.Array:
    """Sums of decimals, NULL where one has more than 38 digits."""
    kind = pa.decimal128(MOST_DIGITS, scale)
    if len(words) == 1:
        return pa.Array.from_buffers(kind, len(words[0]), words[0].buffers(), offset=words[0].offset)
    some = np.flatnonzero(~np.asarray(words[0].is_null()))
    found = np.zeros((len(words[0]), 2), np.int64)
    fits = np.zeros(len(words[0]), np.bool_)
    for place, total in zip(some, _exact(words, some), strict=True):
        if abs(total) < 10**MOST_DIGITS:
            found[place], fits[place] = np.frombuffer(total.to_bytes(16, "little", signed=True), np.int64), True
    return pa.Array.from_buffers(kind, len(found), [pa.py_buffer(np.packbits(fits, bitorder="little")), pa.py_buffer(found)])


def _quotients(words: Sequence[pa.Array], counts: npt.NDArray[np.int64], unit: int, grid: float) -> pa.Array:
    """grid · sum ÷ (count · unit) as float64, rounded once: a power of two changes no digit."""
    if len(words) == 1:
        low, small, absent = _words(words[0])
        small = small & (np.abs(low) < EXACT)
    else:
        absent = np.asarray(words[0].is_null())
        low, small = np.zeros(len(absent), np.int64), np.zeros(len(absent), np.bool_)
    found = _divided(low, small, absent, counts, unit, lambda places: _exact(words, places))
    return pa.array(found * grid, mask=absent)


def _divided(
    sums: npt.NDArray[np.int64],
    small: npt.NDArray[np.bool_],
    absent: npt.NDArray[np.bool_],
    counts: npt.NDArray[np.int64],
    unit: int,
    exact: Callable[[npt.NDArray[np.intp]], list[int]],
) -> npt.NDArray[np.float64]:
    """Sum ÷ (count · unit), rounded once: float64 has both where they are small, and Python rounds the quotient of larger integers once."""
    small = small & (counts < EXACT // unit)
    found = np.where(small, sums, 0).astype(np.float64) / (np.where(small, counts, 1) * float(min(unit, EXACT)))
    large = np.flatnonzero(~small & ~absent)
    for place, total in zip(large, exact(large), strict=True):
        found[place] = total / (int(counts[place]) * unit)
    return found
