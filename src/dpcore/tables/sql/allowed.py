"""The functions, operators and types that an expression may use. What is not listed here is refused.

A function is listed if its value depends on its arguments alone, if the database can turn its failure into NULL for the row at fault, and
if the size and the time of its value are bounded: there is no randomness, time of day, file, setting, sequence, list, nesting or message
among them. How long a text can become follows from the arguments' lengths, by the rule that stands beside a function.
"""

from __future__ import annotations

from collections.abc import Callable

from dpcore._dataclasses import dataclass

LONGEST_CELL = 4096
"""Bytes of a text of the input; a longer one is NULL in an expression."""
LONGEST_ROW = 1 << 17
"""Bytes that all texts made for one row may have."""
OTHER_BYTES = 64
"""Bytes of a number, a date or a time that is written as text, at most."""
MOST_PADDED = 256

Sizes = tuple[int, ...]
Literals = tuple[str | None, ...]
"""The text of each argument that is written in the expression as a string or a number, and None for others."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that an expression may call.

    Attributes
    ----------
    size : callable, optional
        The most bytes of its text, from those of its arguments and what they are where they are literals. By default those of the longest.
    literals : tuple of int
        Arguments that have to be literals: what depends on them is then known, and refused, before any row is read.
    check : callable, optional
        What is wrong with the literals, in words; None if nothing is.
    pattern : str
        How a call is written, if not as the function itself; "{0}" is the first argument.
    """

    size: Callable[[Sizes, Literals], int] = lambda sizes, _: max(sizes, default=OTHER_BYTES)
    literals: tuple[int, ...] = ()
    check: Callable[[Literals], str | None] = lambda _: None
    pattern: str = ""


def _sum(sizes: Sizes, _: Literals) -> int:
    return sum(sizes)


def _twice(sizes: Sizes, _: Literals) -> int:
    return 2 * sizes[0]


def _fourfold(sizes: Sizes, _: Literals) -> int:
    return 4 * sizes[0]


def _joined(sizes: Sizes, _: Literals) -> int:
    return sum(sizes) + len(sizes) * sizes[0]


def _formatted(_: Sizes, literals: Literals) -> int:
    return 32 * (1 + len(literals[1] or ""))


def _short(_: Sizes, __: Literals) -> int:
    return OTHER_BYTES


def _replaced(literals: Literals) -> str | None:
    old, new = (each or "" for each in literals[1:3])
    if old and len(new.encode()) <= len(old.encode()):
        return None
    return "must replace a text by one that has no more bytes"


def _padded(literals: Literals) -> str | None:
    count = literals[1] or ""
    return None if count.isdecimal() and int(count) <= MOST_PADDED else f"must pad to a length of at most {MOST_PADDED}"


def _like(literals: Literals) -> str | None:
    pattern = literals[1] or ""
    if "_" in pattern and pattern.count("%") > 2:
        return "has a pattern with _ and more than two %, which may take too long; use several conditions, or regexp_matches"
    return None


def _regular(literals: Literals) -> str | None:
    return None if len(literals[1] or "") <= 1000 else "has a pattern of more than 1000 characters"


def _pattern(written: str) -> Function:
    return Function(size=_short, literals=(1,), check=_like, pattern=written)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SAME = Function()
PART = Function(size=_short, literals=(0,))
REGULAR = Function(size=_short, literals=(1, 2), check=_regular)

INFIX = ("+", "-", "*", "/", "//", "%", "**", "^", "||", "&", "|", "<<", ">>")
"""Functions that are written between their arguments."""

OF_NUMBERS = _words("""
    + - * / // % ** ^ & | << >> xor abs ceil ceiling floor round round_even trunc sign sqrt cbrt exp ln log log2 log10 pow power
    greatest least isnan isinf isfinite pi sin cos tan asin acos atan atan2 radians degrees add subtract multiply divide mod
    bit_count
""")
OF_TEXT = _words("""
    trim ltrim rtrim left right substr substring reverse length len char_length character_length strlen strpos instr position
    contains starts_with ends_with prefix suffix ^@ ascii unicode ord split_part
""")
OF_TIME = _words("""
    year month day dayofmonth dayofweek weekday isodow dayofyear week weekofyear yearweek isoyear quarter hour minute second
    millisecond microsecond epoch epoch_ms last_day make_date make_timestamp make_time date_add century decade julian dayname monthname
    to_years to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds
""")
FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys((*OF_NUMBERS, *OF_TEXT), SAME),
    **dict.fromkeys(OF_TIME, Function(size=_short)),
    **dict.fromkeys(("date_part", "datepart", "date_trunc", "datetrunc", "date_diff", "datediff", "date_sub", "datesub"), PART),
    **dict.fromkeys(("lower", "upper", "lcase", "ucase"), Function(size=_twice)),
    "strip_accents": Function(size=_fourfold),
    "translate": Function(size=_fourfold, literals=(1, 2)),
    **dict.fromkeys(("||", "concat"), Function(size=_sum)),
    "concat_ws": Function(size=_joined),
    "replace": Function(literals=(1, 2), check=_replaced),
    **dict.fromkeys(("lpad", "rpad"), Function(size=lambda *_: 4 * MOST_PADDED, literals=(1, 2), check=_padded)),
    "chr": Function(size=_short),
    "md5": Function(size=_short),
    "strftime": Function(size=_formatted, literals=(1,)),
    "try_strptime": Function(size=_short, literals=(1,)),
    **dict.fromkeys(("regexp_matches", "regexp_full_match"), REGULAR),
    "regexp_extract": Function(literals=(1, 2, 3), check=_regular),
    # The database has a matcher of linear time for LIKE, but not for ILIKE, whose meaning is this.
    "~~": _pattern("({0} LIKE {1})"),
    "!~~": _pattern("({0} NOT LIKE {1})"),
    "~~*": _pattern("(lower({0}) LIKE lower({1}))"),
    "!~~*": _pattern("(lower({0}) NOT LIKE lower({1}))"),
}
"""What a call may name, in lower case."""

AGGREGATES = {
    "count_star": 0,
    **dict.fromkeys(_words("count sum avg min max mode median bool_and bool_or bit_and bit_or bit_xor"), 1),
    **dict.fromkeys(("arg_min", "arg_max", "quantile_disc"), 2),
}
"""What may be made of the rows of a unit, with the number of arguments: the order of rows changes none of them."""
OTHER_AGGREGATES = {
    "mean": "avg", "min_by": "arg_min", "argmin": "arg_min", "max_by": "arg_max", "argmax": "arg_max", "logical_and": "bool_and",
    "logical_or": "bool_or", "every": "bool_and",
}  # fmt: skip
"""Other names of these."""

COMPARISONS = {
    "COMPARE_EQUAL": "=",
    "COMPARE_NOTEQUAL": "<>",
    "COMPARE_LESSTHAN": "<",
    "COMPARE_GREATERTHAN": ">",
    "COMPARE_LESSTHANOREQUALTO": "<=",
    "COMPARE_GREATERTHANOREQUALTO": ">=",
    "COMPARE_DISTINCT_FROM": "IS DISTINCT FROM",
    "COMPARE_NOT_DISTINCT_FROM": "IS NOT DISTINCT FROM",
}
CONJUNCTIONS = {"CONJUNCTION_AND": "AND", "CONJUNCTION_OR": "OR"}

INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
TYPES = {"BOOLEAN", *INTEGERS, "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "TIME", "INTERVAL", "DECIMAL", "NULL"}
"""What a value inside of an expression may be, parameters apart."""
TARGETS = {
    **{name: name for name in TYPES - {"NULL", "INTERVAL", "DECIMAL"}},
    "BOOL": "BOOLEAN", "LOGICAL": "BOOLEAN",
    "INT": "INTEGER", "INT4": "INTEGER", "SIGNED": "INTEGER", "INT8": "BIGINT", "LONG": "BIGINT", "INT64": "BIGINT", "INT32": "INTEGER",
    "INT2": "SMALLINT", "SHORT": "SMALLINT", "INT16": "SMALLINT", "INT1": "TINYINT",
    "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE", "FLOAT64": "DOUBLE", "FLOAT32": "FLOAT",
    "TEXT": "VARCHAR", "STRING": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR",
    "DATETIME": "TIMESTAMP", "TIMESTAMP_US": "TIMESTAMP",
    "DEC": "DECIMAL", "NUMERIC": "DECIMAL", "DECIMAL": "DECIMAL",
}  # fmt: skip
"""Types that a cast may name, in capitals, with the name that they are written by."""


def kind_of(type_name: str) -> str:
    """A type without its parameters."""
    return type_name.partition("(")[0]
