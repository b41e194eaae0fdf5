"""The key `consistent` of a query over nested groups: which levels are answered, and what their numbers must be besides adding up."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ValidationError

from dpcore._validation import check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.pages.printable import printable
from dpcore.query.group_fields import PRIVATE
from dpcore.tables.fields import CheckedBy, Section
from dpcore.tables.near_names import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcore.query.group_fields import GroupsDeclared


TOTAL = "total"
"""The level of all declared groups together; that of a column has its name."""


def _check_levels(value: object) -> tuple[tuple[str, float], ...] | None:
    """Names, or a table of names with shares."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return tuple((_level(name), _share(str(name), share)) for name, share in value.items())
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"must be a list of levels, or a table with a share of ε for each, got {printable(reprlib.repr(value))}")
    pairs = [each if isinstance(each, tuple) and len(each) == 2 else (each, 1.0) for each in value]
    levels = tuple((_level(name), _share(str(name), share)) for name, share in pairs)
    if len(dict(levels)) < len(levels):
        raise ValueError(f"must list different levels, got {printable(reprlib.repr(value))}")
    return levels


def _level(name: object) -> str:
    if not isinstance(name, str):
        raise ValueError(f"must name levels, got {printable(reprlib.repr(name))}")  # noqa: TRY004
    return name


def _share(name: str, value: object) -> float:
    try:
        return check_real(name, value, low=0.0, high=sys.float_info.max, include_low=False)
    except (ParameterError, ParameterTypeError) as error:
        raise ValueError(str(error)) from None


class Consistent(Section):
    """Answers to all levels of nested groups that add up: `true`, or a table.

    Attributes
    ----------
    levels : tuple of (str, float) or None
        The levels that are answered, each with its share of ε. None: all, with equal shares.
    non_negative : bool
        Whether no number may be below 0.
    integral : bool
        Whether numbers must be whole.
    """

    levels: Annotated[tuple[tuple[str, float], ...] | None, CheckedBy(_check_levels)] = None
    non_negative: bool = False
    integral: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether the answers are linear in those that were released, so that they have intervals."""
        return not (self.non_negative or self.integral)

    def shares(self, names: Sequence[str]) -> dict[int, Fraction]:
        """The share of ε of each level that is answered, by the number of columns that it has, from the coarsest level on."""
        places = {TOTAL: 0, **{name: place for place, name in enumerate(names, 1)}}
        given = dict(self.levels or ((name, 1.0) for name in places))
        exact = {places[name]: Fraction(repr(share)) for name, share in given.items()}
        return {place: exact[place] / sum(exact.values()) for place in sorted(exact)}


def check_consistent(value: object) -> Consistent | None:
    """True, or a table of what else is wanted; None of false."""
    if value is None or isinstance(value, Consistent):
        return value
    if isinstance(value, bool):
        return Consistent() if value else None
    if not isinstance(value, Mapping):
        raise ValueError(  # noqa: TRY004  # which pydantic passes on
            f"consistent must be true, false or a table with levels, non_negative or integral, got {printable(reprlib.repr(value))}"
        )
    try:
        return Consistent.model_validate(dict(value))
    except ValidationError as error:
        raise ValueError("; ".join(map(_explained, error.errors(include_url=False)))) from None


def _explained(details: Any) -> str:
    key = printable(".".join(map(str, details["loc"][:1])))
    match details["type"]:
        case "extra_forbidden":
            return f"consistent.{key}: unknown key; allowed here: {', '.join(Consistent.model_fields)}"
        case "value_error":
            return f"consistent.{key} {details['ctx']['error']}"
        case _:
            return f"consistent.{key} = {printable(reprlib.repr(details['input']))}: {details['msg']}"


def check_nested(names: Sequence[str], groups: GroupsDeclared, wanted: Consistent) -> None:
    """Raise ValueError unless these columns of groups have these levels."""
    if groups == PRIVATE:
        raise ValueError(
            'consistent is for declared groups: of groups = "private" only those are known that enough units have, and the numbers of the '
            "others would be missing in every total"
        )
    if TOTAL in names:
        raise ValueError(
            f"a column of group_by is named {TOTAL!r}, which is the level of all groups together; give it another name in a [[derive]]"
        )
    levels = (TOTAL, *names)
    if wanted.levels is None:
        return
    for name, _ in wanted.levels:
        if name not in levels:
            known = ", ".join(map(repr, levels))
            raise ValueError(f"consistent.levels names {name!r}, but the levels of these groups are {known}.{suggestion(name, levels)}")
    chosen = {name for name, _ in wanted.levels}
    if names[-1] not in chosen or len(chosen) < 2:
        raise ValueError(f"consistent.levels must name {names[-1]!r}, the finest level, and another one, got {sorted(chosen)!r}")


ConsistentKey = Annotated[Consistent | None, CheckedBy(check_consistent)]
