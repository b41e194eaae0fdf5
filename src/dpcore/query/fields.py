"""Types of the values in a `[[query]]`; each explains what is wrong with other values."""

from __future__ import annotations

import itertools
import math
import reprlib
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, PlainValidator, model_validator

from dpcore._validation import check_integer, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.query.grids import WIDEST, log_grid
from dpcore.query.methods import InPython
from dpcore.tables.fields import Category, CheckedBy, Positive, Section, check_categories, checked
from dpcore.tables.sections import SUFFIXES
from dpcore.tables.types.timed import DAY, EXAMPLES, Timed, sort_of, timed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationInfo


Checked = TypeVar("Checked")
SKIP = "skip"
"""The value of `missing` that leaves rows without a number or category out."""
MAX_CELLS = 2**20
"""Cells of one answer: a histogram's, a grid's, a list of candidates'."""
MAX_LEVELS = 255
MAX_SYNTHETIC_CELLS = 2**24
"""Cells of all histograms of a synthetic table: at 45 bytes each 0.8 GB."""
MAX_DECIMALS = 6
"""Decimals of a quantile's level: ranks are then compared as integers, exactly, up to 9·10^9 rows."""


UNKNOWN_NAMES = 'To rank values that only the data know, count private groups, with group_by and groups = "private", and sort the counts'
"""What to do where candidates cannot be listed."""


def _check_listed(value: object, info: ValidationInfo) -> tuple[Category, ...]:
    if value == "private":
        raise ValueError(f"{info.field_name} must be a list of values that are public, got 'private'. {UNKNOWN_NAMES}")
    return check_categories(value, str(info.field_name), least=1, most=MAX_CELLS, answers=True)


def _check_edges(value: object, info: ValidationInfo) -> tuple[float, ...]:
    """Numbers, dates or times in order, from a list or from {start, stop, step}."""
    key = str(info.field_name)
    if isinstance(value, Mapping):
        return _timed_progression(key, value) if timed(value.get("start")) is not None else _progression(key, value)
    if not isinstance(value, list | tuple) or len(value) < 2:
        raise ValueError(f"{key} must be a list of at least two numbers, or a table {{start, stop, step}}, got {reprlib.repr(value)}")
    _check_size(key, len(value))
    numbers = tuple(_bound(f"{key}[{position}]", item) for position, item in enumerate(value))
    if len({sort_of(number) for number in numbers}) > 1:
        raise ValueError(f"{key} must be all numbers, or all dates or times of one sort, got {reprlib.repr(value)}")
    for position in range(1, len(numbers)):
        if not numbers[position - 1] < numbers[position]:
            raise ValueError(f"{key} must increase, but {key}[{position}] = {numbers[position]!r} follows {numbers[position - 1]!r}")
    return numbers


def _progression(key: str, table: Mapping[Any, Any]) -> tuple[float, ...]:
    """start, start + step, … up to stop, each the float nearest to the decimal that is meant."""
    if set(table) != {"start", "stop", "step"}:
        raise ValueError(f"{key} as a table has the keys start, stop and step, got {', '.join(map(str, table)) or 'none'}")
    start, stop, step = (Decimal(repr(_number(f"{key}.{name}", table[name]))) for name in ("start", "stop", "step"))
    if step <= 0 or start + step > stop:
        raise ValueError(f"{key}: step = {step} must be positive, and stop = {stop} at least start + step = {start + step}")
    # Decimals have 28 digits, and a quotient that needs more of them raises.
    size = math.floor((Fraction(stop) - Fraction(start)) / Fraction(step)) + 1
    _check_size(key, size)
    points = tuple(float(start + i * step) for i in range(size))
    if len(set(points)) < len(points):
        raise ValueError(f"{key}: step = {step} is too small for float64 at start = {start}, stop = {stop}")
    return points


def _timed_progression(key: str, table: Mapping[Any, Any]) -> tuple[float, ...]:
    """The same of dates or times, by a duration."""
    if set(table) != {"start", "stop", "step"}:
        raise ValueError(f"{key} as a table has the keys start, stop and step, got {', '.join(map(str, table))}")
    start, stop, step = (timed(table[name]) for name in ("start", "stop", "step"))
    if start is None or stop is None or step is None or sort_of(stop) != sort_of(start) or sort_of(step) != "duration":
        given = f"stop = {table['stop']!r} and step = {table['step']!r}"
        raise ValueError(f'{key}: with start = {start!r}, stop must be of this sort, too, and step a duration like "P7D", got {given}')
    steps, rest = divmod(int(step), DAY) if sort_of(start) == "date" else (int(step), 0)
    if rest or steps <= 0 or start + steps > stop:
        raise ValueError(f"{key}: step = {step!r} must be positive, of dates whole days, and stop = {stop!r} at least start + step")
    size = (int(stop) - int(start)) // steps + 1
    _check_size(key, size)
    return tuple(Timed.of(start.sort, int(start) + i * steps) for i in range(size))


def _bound(name: str, value: object) -> float:
    """A number, or a date or time."""
    try:
        found = timed(value)
    except ValueError as error:
        raise ValueError(f"{name} {error}, got {reprlib.repr(value)}") from None
    if found is not None:
        return found
    try:
        return _number(name, value)
    except ValueError as error:
        if not isinstance(value, str) or not any(letter.isdecimal() for letter in value):
            raise
        raise ValueError(f"{error}; dates, times and durations are written {', '.join(EXAMPLES.values())}") from None


def _check_bound(value: object, info: ValidationInfo) -> float:
    return _bound(str(info.field_name), value)


def check_one_sort(**bounds: object) -> None:
    """Raise ValueError unless all that are given are numbers, or all are dates or times of one sort."""
    sorts = {sort_of(value) for value in bounds.values() if value is not None and value != SKIP}
    if len(sorts) > 1:
        found = ", ".join(f"{key} = {value!r}" for key, value in bounds.items() if value is not None)
        raise ValueError(f"{' and '.join(bounds)} must be all numbers, or all dates or times of one sort, got {found}")


def _check_bin_count(value: object) -> int:
    """A number of bins; a list was the name of `edges`."""
    if isinstance(value, list | tuple | Mapping):
        raise ValueError(f"bins is a number of bins; write edges = {_toml(value)} for bins with these edges")  # noqa: TRY004
    return _as_value_error(lambda: check_integer("bins", value, low=1, high=MAX_CELLS - 1))


def _toml(value: object) -> str:
    """The start of a list or a table, as a job file has it."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{str(key)[:20]} = {reprlib.repr(item)}' for key, item in list(value.items())[:3])}}}"
    items = [reprlib.repr(item) for item in list(value)[:4]] if isinstance(value, list | tuple) else []
    return f"[{', '.join(items)}{', ...' if isinstance(value, list | tuple) and len(value) > 4 else ''}]"


def even_edges(bins: int, lower: float, upper: float) -> tuple[float, ...]:
    """Edges of bins of equal width: each the float nearest to the decimal that is meant."""
    start, stop = (Fraction(Decimal(repr(end))) for end in (lower, upper))
    # Integers over one denominator: Python rounds their quotient to the nearest float, and a fraction for each edge would take a minute.
    first, last = (int(end * start.denominator * stop.denominator) for end in (start, stop))
    whole = start.denominator * stop.denominator * bins
    edges = tuple((first * (bins - i) + last * i) / whole for i in range(bins + 1))
    if any(not low < high for low, high in itertools.pairwise(edges)):
        raise ValueError(f"bins = {bins} is too many for float64 between lower = {lower!r} and upper = {upper!r}")
    return edges


def _check_size(key: str, size: int) -> None:
    if size > MAX_CELLS:
        raise ValueError(f"{key} must have at most {MAX_CELLS} numbers, got {size if size < 10**18 else 'far more'} of them")


def _number(name: str, value: object) -> float:
    return _as_value_error(lambda: check_real(name, value, low=-sys.float_info.max, high=sys.float_info.max))


def _as_value_error(check: Callable[[], Checked]) -> Checked:
    try:
        return check()
    except (ParameterError, ParameterTypeError) as error:
        raise ValueError(str(error)) from None


def check_bounds(lower: float, upper: float, missing: float | str | None) -> None:
    """Raise ValueError unless lower < upper and `missing` is between them, or says that rows are skipped."""
    check_one_sort(lower=lower, upper=upper, missing=missing)
    if not lower < upper:
        raise ValueError(f"lower = {lower!r} must be less than upper = {upper!r}")
    if missing is not None and not isinstance(missing, str) and not lower <= missing <= upper:
        raise ValueError(f"missing must be in [lower, upper] = [{lower!r}, {upper!r}], got {missing!r}")


def _check_two_names(value: object) -> tuple[str, str]:
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(isinstance(each, str) and each for each in value):
        raise ValueError(f"columns must be a list of two columns, got {reprlib.repr(value)}")
    if value[0] == value[1]:
        raise ValueError(f'columns must be two different columns, got {value[0]!r} twice; its covariance with itself is kind = "var"')
    return value[0], value[1]


def _check_two_numbers(value: object, info: ValidationInfo) -> tuple[float, float]:
    """A number for each of two columns."""
    key = str(info.field_name)
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{key} must be a list of two numbers, one for each column, got {reprlib.repr(value)}")
    return _number(f"{key}[0]", value[0]), _number(f"{key}[1]", value[1])


def _check_number_or_skip(value: object, info: ValidationInfo) -> float | str:
    """A number, date or time that stands for missing ones, or "skip"."""
    if isinstance(value, str) and value != SKIP and timed(value) is not None:
        return _check_bound(value, info)
    if isinstance(value, str) and value != SKIP:
        raise ValueError(f'{info.field_name} must be a number, or "{SKIP}" to leave such rows out, got {reprlib.repr(value)}')
    return SKIP if isinstance(value, str) else _check_bound(value, info)


def _check_two_numbers_or_skip(value: object, info: ValidationInfo) -> tuple[float, float] | str:
    """A number for each of two columns, or "skip"."""
    return SKIP if value == SKIP else _check_two_numbers(value, info)


def check_cells_of_groups(key: str, cells: int, groups: int) -> None:
    """Raise ValueError if as many cells for each of so many groups are more than an answer has."""
    if cells * groups > MAX_CELLS:
        raise ValueError(f"{key} must have at most {MAX_CELLS} points for all groups together, got {cells * groups}")


def _check_levels(value: object) -> tuple[float, ...]:
    """Levels of quantiles, in order, with few enough decimals for exact ranks."""
    listed = list(value) if isinstance(value, list | tuple) else [value]
    levels = tuple(_level(_number("q", item)) for item in listed)
    if len(levels) > MAX_LEVELS:
        raise ValueError(f"q must have at most {MAX_LEVELS} levels, got {len(levels)} of them")
    if not levels or not all(0 < level < 1 and round(level, MAX_DECIMALS) == level for level in levels):
        percent = "; the 95th percentile is q = 0.95" if any(1 < level < 100 for level in levels) else ""
        raise ValueError(
            f"q must be a number in (0, 1) with at most {MAX_DECIMALS} decimals, or a list of such, got {reprlib.repr(value)}{percent}"
        )
    if any(not low < high for low, high in itertools.pairwise(levels)):
        raise ValueError(f"q must increase, got {reprlib.repr(value)}")
    return levels


def _level(number: float) -> float:
    """The decimal that a computed number like 0.1 + 0.2 stands for."""
    nearest = round(number, MAX_DECIMALS)
    return nearest if math.isclose(number, nearest, rel_tol=1e-12) else number


def _check_stand_in(value: object) -> Category | float:
    if not isinstance(value, str) and (found := timed(value)) is not None:
        return found
    if type(value) not in {str, int, float, bool} or (isinstance(value, int | float) and not abs(value) <= sys.float_info.max):
        raise ValueError(f"must be a string or a finite number, got {reprlib.repr(value)}")
    return value  # type: ignore[return-value]


def _check_table_path(value: object) -> str:
    if not isinstance(value, str) or Path(value).suffix.lower() not in SUFFIXES:
        raise ValueError(f"must be the path of a table that ends in one of {', '.join(SUFFIXES)}, got {reprlib.repr(value)}")
    return value


DeltaShare = Annotated[float, checked(check_real, low=0.0, high=1.0, include_high=False)]
Confidence = Annotated[float, checked(check_real, low=0.0, high=1.0, include_low=False, include_high=False)]
Bound = Annotated[float, PlainValidator(_check_bound), InPython("Bound", "float, date, time or duration")]
Edges = Annotated[tuple[float, ...], PlainValidator(_check_edges), InPython("Points", "sequence of float, date or time, or mapping")]
Levels = Annotated[tuple[float, ...], CheckedBy(_check_levels), InPython("float | Sequence[float]", "float or sequence of float")]
Listed = Annotated[
    tuple[Category, ...], PlainValidator(_check_listed), InPython("Listed", "sequence of str, int, bool or date", lists_values=True)
]
StandIn = Annotated[Category | float, CheckedBy(_check_stand_in), InPython("Bound", "str or float")]
SyntheticCells = Annotated[int, checked(check_integer, low=1, high=MAX_SYNTHETIC_CELLS)]
TablePath = Annotated[str, CheckedBy(_check_table_path)]
TwoNames = Annotated[tuple[str, str], CheckedBy(_check_two_names), InPython("Sequence[str]", "sequence of two str")]
TwoNumbers = Annotated[tuple[float, float], PlainValidator(_check_two_numbers), InPython("Sequence[float]", "sequence of two floats")]
NumberOrSkip = Annotated[float | str, PlainValidator(_check_number_or_skip), InPython("Bound", 'number or date like the bounds, or "skip"')]
TwoNumbersOrSkip = Annotated[
    tuple[float, float] | str,
    PlainValidator(_check_two_numbers_or_skip),
    InPython("Sequence[float] | Literal['skip']", 'sequence of two floats or "skip"'),
]
BinCount = Annotated[int, CheckedBy(_check_bin_count)]
HowMany = Annotated[int, checked(check_integer, low=1, high=MAX_CELLS)]


class FoundKeys(Section):
    """`bounds = "private"`, and what finding them spends."""

    bounds: Annotated[
        Literal["private"] | None,
        Field(description="Find bounds privately, instead of declaring them, for `bounds_epsilon` of the query's ε."),
    ] = None
    bounds_epsilon: Annotated[Positive | None, Field(description="That part, in (0, epsilon).")] = None

    @classmethod
    def found_between(cls) -> dict[str, object]:
        """The keys that found bounds replace, with values that hold all bins."""
        return {"grid": log_grid()} if "grid" in cls.model_fields else {"lower": WIDEST[0], "upper": WIDEST[1]}

    @model_validator(mode="before")
    @classmethod
    def _bounds_are_found_or_declared(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or given.get("bounds") != "private":
            return given
        if declared := [key for key in cls.found_between() if key in given]:
            raise ValueError(f'bounds = "private" finds them; leave {" and ".join(declared)} out')
        return {**given, **cls.found_between()}

    @model_validator(mode="after")
    def _bounds_and_their_epsilon_belong_together(self) -> Self:
        if (self.bounds is None) != (self.bounds_epsilon is None):
            given = "bounds was given" if self.bounds_epsilon is None else "bounds_epsilon was given"
            raise ValueError(
                f'bounds = "private" and bounds_epsilon, the part of epsilon that finding them spends, belong together; only {given}'
            )
        return self

    def check_found(self, epsilon: float, weight: float | None) -> None:
        """Raise ValueError unless bounds leave something of ε, which has to be given."""
        if self.bounds_epsilon is not None and weight is not None:
            raise ValueError(
                'bounds_epsilon is a part of the query\'s epsilon; give epsilon in place of weight with bounds = "private", got '
                f"weight = {weight!r}"
            )
        if self.bounds_epsilon is not None and not self.bounds_epsilon < epsilon:
            raise ValueError(f"bounds_epsilon must be less than epsilon = {epsilon!r}, its whole, got {self.bounds_epsilon!r}")
