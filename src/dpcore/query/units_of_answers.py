"""How numbers of answers are written: decimals in their own unit, dates and times in words, with labels and units of measure."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcore.errors import JobError, ParameterError
from dpcore.query.fields import SKIP
from dpcore.tables.fields import INT64_MAX, INT64_MIN, Name, Section
from dpcore.tables.types.categories import value_type
from dpcore.tables.types.decimals import counted, digits_of, fitting_digits, ratio_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from dpcore.query.query_sections import QuerySection

    Two = tuple[float, float]


EXACT_TENS = 22
"""Powers of ten up to this one are floats."""
SCALED = ("laplace", "gaussian")
"""Noise on numbers; other noise is on counts of rows."""
DECLARED = ("lower", "upper", "missing", "max_sum_per_unit")
"""What a query in steps has in steps."""


class Stepped(float):
    """A number of steps of 10^-digits, which is written as the number that they make.

    Attributes
    ----------
    digits : int
        Digits behind the point.
    """

    __slots__ = ("digits",)
    digits: int

    @classmethod
    def of(cls, steps: float, digits: int) -> Stepped:
        """So many steps, a whole number."""
        made = cls(steps)
        made.digits = digits
        return made

    @property
    def number(self) -> float:
        """The number."""
        return float(Fraction(int(self)) / Fraction(10) ** self.digits)

    def __repr__(self) -> str:
        return repr(self.number)

    __str__ = __repr__


def stepped_bounds(dtype: pa.DataType, bounds: Two, missing: float | None) -> tuple[Two, float | None, int | None]:
    """Bounds and the number for nulls in the steps of a column, and the digits of these behind the point; as they are for other types.

    Bounds are rounded inward to whole steps, and `missing` to the nearest one between them.

    Raises
    ------
    JobError
        If there is one step at most between the bounds, or if they lie where the column is read as integers of 64 bits.
    """
    own = digits_of(dtype)
    if own is None:
        _check_reach(dtype, bounds)
        return bounds, missing, None
    digits = fitting_digits(max(map(abs, bounds)), own)
    (low, is_whole), (high, _) = (counted(bound, digits) for bound in bounds)
    inside = _up(low + (not is_whole)), -_up(-high)
    if not inside[0] < inside[1]:
        step = Stepped.of(1, digits)
        raise JobError(
            f"lower = {bounds[0]!r} and upper = {bounds[1]!r} must have two multiples of {step} between them: a column of type {dtype} is "
            f"counted in steps of {step}"
        )
    lower, upper = (Stepped.of(end, digits) for end in inside)
    if missing is None:
        return (lower, upper), None, digits
    nearest = math.floor(Fraction(*ratio_of(missing)) * Fraction(10) ** digits + Fraction(1, 2))
    return (lower, upper), Stepped.of(min(max(nearest, int(lower)), int(upper)), digits), digits


def _up(steps: int) -> float:
    """The least float that is not below an integer."""
    near = float(steps)
    return near if int(near) >= steps else math.nextafter(near, math.inf)


def _check_reach(dtype: pa.DataType, bounds: Two) -> None:
    """Integers are added as 64 bits with a sign; beyond them float64 would round what the column holds."""
    if value_type(dtype) == pa.uint64() and not INT64_MIN <= bounds[0] <= bounds[1] < INT64_MAX:
        raise JobError(
            f"lower = {bounds[0]!r} and upper = {bounds[1]!r} must lie within 63 bits for a column of type {dtype}; derive one in larger "
            "units, as x // 1000, or one of floats, as CAST(x AS DOUBLE)"
        )


def in_steps(query: QuerySection, bounds: Sequence[Two], missing: Sequence[float | None]) -> QuerySection:
    """The query with bounds in the steps of its columns, as these are read.

    Parameters
    ----------
    query : QuerySection
        With `lower` and `upper`, for one column or two.
    bounds, missing : sequence
        Those of each column.
    """
    if not any(isinstance(each, Stepped) for two in bounds for each in two):
        return query
    lower, upper = (tuple(two[end] for two in bounds) for end in (0, 1))
    one = len(bounds) == 1
    found: dict[str, Any] = {"lower": lower[0] if one else lower, "upper": upper[0] if one else upper}
    if getattr(query, "missing", None) not in {None, SKIP}:
        found["missing"] = missing[0] if one else tuple(missing)
    most, digits = getattr(query, "max_sum_per_unit", None), getattr(lower[0], "digits", 0)
    if most is not None:
        steps = -_up(-counted(most, digits)[0])
        if not steps:
            raise ParameterError(f"max_sum_per_unit must be at least {Stepped.of(1, digits)}, the step of the column, got {most!r}")
        found["max_sum_per_unit"] = Stepped.of(steps, digits)
    return query.model_copy(update=found)


def in_own_unit(section: QuerySection, document: dict[str, Any]) -> dict[str, Any]:
    """The document of an answer, or of a plan, with numbers in place of steps.

    Parameters
    ----------
    section : QuerySection
        The query, in steps.
    document : dict
        What `release` gives, `declared` and `noise`.
    """
    digits = _digits(section)
    if digits is None:
        return document
    whole = sum(own * power for own, power in zip(digits, section.powers, strict=True))
    found = {**document, **{key: _numbers(document[key]) for key in DECLARED if key in document}}
    found |= {key: _scaled(document[key], whole) for key in ("value", "stderr", "interval") if key in document}
    if "centre" in document:
        found["centre"] = _centres(document["centre"], digits)
    if "noise" in document:
        found["noise"] = noise_in_own_unit(section, document["noise"])
    steps = [Stepped.of(1, each).number for each in digits]
    return found | {"step": steps if len(steps) > 1 else steps[0]}


def noise_in_own_unit(section: QuerySection, noise: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Noise with scales of numbers in place of steps: that of sums for each column, then that of a product if there is one."""
    digits = _digits(section)
    if digits is None:
        return list(noise)
    sums = itertools.cycle(digits)  # levels of nested groups have the sum of one column each
    products = section.ends_with_product
    said = []
    for place, each in enumerate(noise):
        if each["law"] not in SCALED:
            said.append(each)
            continue
        is_product = products and place == len(noise) - 1
        shift = sum(digits) * 2 // len(digits) if is_product else next(sums)
        said.append({**each, **{key: _scaled(each[key], shift) for key in ("sensitivity", "scale")}})
    return said


def error_in_own_unit(section: QuerySection, error: float | None) -> float | None:
    """A standard error with numbers in place of steps."""
    found: float | None = in_own_unit(section, {"stderr": error})["stderr"]
    return found


def _digits(section: QuerySection) -> tuple[int, ...] | None:
    """Digits of each column's steps behind the point; None if nothing is in steps."""
    lower = getattr(section, "lower", None)
    ends = lower if isinstance(lower, tuple) else (lower,)
    return tuple(getattr(end, "digits", 0) for end in ends) if any(isinstance(end, Stepped) for end in ends) else None


def _centres(centres: Any, digits: tuple[int, ...]) -> Any:
    """The centre of a column, or those of two; of each group, if there are groups."""
    if len(digits) == 1:
        return _scaled(centres, digits[0])
    if isinstance(centres[0], list):
        return [_centres(each, digits) for each in centres]
    return [_scaled(each, one) for each, one in zip(centres, digits, strict=True)]


def _numbers(value: Any) -> Any:
    """Plain numbers in place of `Stepped`."""
    if isinstance(value, Stepped):
        return value.number
    return [_numbers(each) for each in value] if isinstance(value, list | tuple) else value


def _scaled(value: Any, digits: int) -> Any:
    """Steps as numbers: the float nearest to each."""
    if value is None or digits == 0:
        return value
    if isinstance(value, np.ndarray):
        exact = value.dtype == np.float64 and 0 < digits <= EXACT_TENS
        return value / 10.0**digits if exact else _scaled(value.tolist(), digits)
    if isinstance(value, list):
        numbers = np.array(value) if 0 < digits <= EXACT_TENS else np.empty(0, object)
        return (numbers / 10.0**digits).tolist() if numbers.dtype == np.float64 else [_scaled(each, digits) for each in value]
    return float(value) / 10.0**digits if 0 < digits <= EXACT_TENS else float(Fraction(float(value)) / Fraction(10) ** digits)


class ColumnLabel(Section):
    """`[[column]]` of a release: how readers know a column. Neither key changes an answer."""

    name: Name
    label: Name | None = None
    unit_of_measure: Name | None = None

    def document(self) -> dict[str, str]:
        return {key: value for key, value in self.model_dump().items() if value is not None}


def check_labels(columns: Sequence[ColumnLabel], named: Iterable[str]) -> None:
    """Raise ValueError if a column has two tables, two have one label, or the job names no such column."""
    known = set(named)
    for key in ("name", "label"):
        for value, times in Counter(getattr(column, key) for column in columns).items():
            if value is not None and times > 1:
                raise ValueError(f"column: {times} [[column]] entries have {key} = {value!r}; give each a different one")
    for column in columns:
        if column.name not in known:
            raise ValueError(f"column: no [[query]] names {column.name!r}; a [[column]] of a release labels a column that a query names")


def named_columns(queries: Iterable[Section]) -> set[str]:
    """The columns that queries name, as values or as groups."""
    found: set[str] = set()
    for query in queries:
        for key in ("column", "columns", "group_by"):
            value = getattr(query, key, None)
            for each in value if isinstance(value, list | tuple) else [value]:
                name = getattr(each, "name", each)
                found |= {name} if isinstance(name, str) else set()
    return found


def with_unit(text: str, query: Mapping[str, Any]) -> str:
    """A number with the unit of measure of its query, on one line."""
    unit = query.get("unit_of_measure")
    return text if unit is None else f"{text}\u00a0{unit}"


def axis_of(text: str, query: Mapping[str, Any]) -> str:
    """The label of an axis, with the unit of measure of its query or of its bins."""
    unit = query.get("unit_of_measure", query.get("unit_of_bins"))
    return text if unit is None else f"{text} ({unit})"
