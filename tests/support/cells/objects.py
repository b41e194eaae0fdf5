"""Python objects that a column of objects can hold: every scalar of Python, NumPy, pandas and Arrow, and classes that should not be asked.

`CALLED` has the methods of these classes that somebody called.
"""

from __future__ import annotations

import array
import collections
import datetime as dt
import enum
import fractions
import types
import uuid
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa

SMALL_DECIMALS = [pa.decimal32(5, 1), pa.decimal64(5, 1)] if hasattr(pa, "decimal32") else []
"""Decimals of 32 and 64 bits, which pyarrow 18 does not have."""
CALLED: list[str] = []
"""Methods of the hostile classes that were called."""

SPECIAL = (
    "__str__", "__repr__", "__bytes__", "__format__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__bool__",
    "__len__", "__iter__", "__next__", "__contains__", "__getitem__", "__int__", "__index__", "__float__", "__complex__", "__round__",
    "__trunc__", "__floor__", "__ceil__", "__abs__", "__neg__", "__add__", "__radd__", "__sub__", "__mul__", "__floordiv__", "__mod__",
    "__divmod__", "__array__", "__array_interface__", "__array_struct__", "__array_ufunc__", "__array_priority__", "__arrow_array__",
    "__arrow_c_array__", "__arrow_c_stream__", "__arrow_c_schema__", "__dataframe__", "__dlpack__", "__fspath__", "__call__", "__copy__",
    "__deepcopy__", "__length_hint__", "__reversed__", "__enter__", "__instancecheck__", "__getattr__",
    "as_py", "item", "tolist", "encode", "decode", "isoformat", "utcoffset", "total_seconds", "as_tuple", "is_nan", "is_finite", "adjusted",
    "bit_length", "is_integer", "hex", "toordinal", "to_pydatetime", "timestamp", "value", "numerator", "denominator", "real", "imag",
)  # fmt: skip
LIES: dict[str, Any] = {"__len__": 3, "__bool__": True, "__hash__": 5, "__eq__": True, "__str__": "a", "__float__": 1.0, "__int__": 1}


class _Outrage(BaseException):
    """No `except Exception` holds it."""


def _method(owner: str, name: str, does: str) -> Callable[..., Any]:
    def method(self: object, *args: object, **keys: object) -> object:
        CALLED.append(f"{owner}.{name}")
        if does == "raises":
            raise ValueError("Ann Example")
        if does == "outrages":
            raise _Outrage("Ann Example")
        return LIES.get(name, self)

    return method


def hostile(base: type, does: str, *, lies_about: type | None = None) -> type:
    """A subclass whose methods raise, or lie."""
    name = f"{does} {base.__name__}"
    body: dict[str, Any] = {}
    for special in SPECIAL:
        if special == "__getattr__" or hasattr(base, special) or base is object:
            body[special] = _method(name, special, does)
    if lies_about is not None:

        def told(self: object) -> type:
            CALLED.append(f"{name}.__class__")
            if does == "lies":
                return lies_about
            raise ValueError("Ann Example")

        body["__class__"] = property(told)
    return type(base)(name, (base,), body) if type(base) is not type else type(name, (base,), body)


def _meta(does: str) -> type:
    """A class whose class is hostile."""
    body = {
        name: _method(f"{does} class", name, does) for name in ("__hash__", "__eq__", "__instancecheck__", "__subclasscheck__", "__repr__")
    }
    meta = type(f"{does} class", (type,), body)
    return type.__new__(meta, "Odd", (object,), {})


BASES: dict[type, tuple[Any, ...]] = {
    object: (),
    str: ("a",),
    bytes: (b"a",),
    bytearray: (b"a",),
    int: (5,),
    float: (1.5,),
    complex: (1j,),
    Decimal: ("1.5",),
    fractions.Fraction: (3, 2),
    dt.date: (2024, 1, 31),
    dt.datetime: (2024, 1, 31, 12),
    dt.time: (12,),
    dt.timedelta: (1,),
    uuid.UUID: ("12345678123456781234567812345678",),
    tuple: (("a", 1),),
    list: (["a"],),
    dict: ({"a": 1},),
    set: ({"a"},),
    np.float64: (1.5,),
    np.float32: (1.5,),
    np.int64: (5,),
    np.str_: ("a",),
    np.bytes_: (b"a",),
    np.datetime64: ("2024-01-31",),
    np.timedelta64: (5, "D"),
    pd.Timestamp: ("2024-01-31",),
    pd.Timedelta: (5,),
}


class Zone(dt.tzinfo):
    """A time zone that runs code."""

    def utcoffset(self, moment: dt.datetime | None) -> dt.timedelta | None:
        CALLED.append("Zone.utcoffset")
        raise ValueError("Ann Example")

    dst = tzname = fromutc = utcoffset  # type: ignore[assignment]


class Word(enum.StrEnum):
    A = "a"


class Number(enum.IntEnum):
    FIVE = 5


class Colour(enum.Enum):
    RED = 1


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024


def _python() -> dict[str, Any]:
    """Scalars and containers of Python."""
    texts = ["", "a", "b", "5", "1001", "é", "\ud800", "a\udcff", "\x00", "nan", "None", "True", "2024-01-31", "x" * 3000, "\U0001f600"]
    numbers = [True, False, 0, 1, -1, 5, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63) - 1, 2**64, 10**400, -(10**400)]
    floats = [1.5, -0.0, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, 1e16]
    decimals = ["1.5", "-0", "0E+5", "NaN", "sNaN", "-sNaN123", "Infinity", "1E+999999", "1E-999999", "1E+50", "123456789" * 12]
    moments = [
        dt.date(2024, 1, 31), dt.date.min, dt.date.max, dt.datetime(2024, 1, 31, 12, 0, 1, 5), dt.datetime.min, dt.datetime.max,
        dt.datetime(2024, 1, 31, tzinfo=dt.UTC), dt.datetime(2024, 1, 31, tzinfo=ZoneInfo("Europe/Berlin")),
        dt.datetime(2024, 1, 31, tzinfo=Zone()), dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=14))),
        dt.time(12), dt.time(23, 59, 59, 999999), dt.time(12, tzinfo=dt.UTC), dt.timedelta(1), dt.timedelta.max, dt.timedelta.min,
    ]  # fmt: skip
    binary = [b"", b"a", b"5", b"\xff", bytearray(b"a"), memoryview(b"a"), memoryview(b"abcd")[::2], array.array("i", [1])]
    others = [
        None, Ellipsis, NotImplemented, 1j, complex("nan"), fractions.Fraction(1, 3), fractions.Fraction(5), uuid.UUID(int=5), Colour.RED,
        Word.A, Number.FIVE, (), ("a",), ["a"], [], {"a": 1}, {"a"}, frozenset("a"), range(3), Point(1, 2), object(), object, str, len,
        (each for each in "a"), types.SimpleNamespace(a=1), slice(1), iter(["a"]),
    ]  # fmt: skip
    values = [*texts, *numbers, *floats, *map(Decimal, decimals), *moments, *binary, *others]
    return {f"{type(value).__name__} {place}": value for place, value in enumerate(values)}


def _numpy() -> dict[str, Any]:
    """Scalars of each dtype of NumPy, and arrays."""
    found: dict[str, Any] = {}
    for kind in sorted({*np.sctypeDict.values()}, key=lambda each: each.__name__):
        dtype = np.dtype(kind)
        if dtype.kind in "biu":
            found |= {f"{dtype} {value}": dtype.type(value) for value in (0, 1)}
        elif dtype.kind in "fc":
            found |= {f"{kind.__name__} {value}": dtype.type(value) for value in (1.5, -0.0, "nan", "inf")}
    found |= {f"int {kind} at its end": np.iinfo(kind).max for kind in "bhilqBHILQ"}
    found |= {f"longdouble {text}": np.longdouble(text) for text in ("0.1", "1e4000")}
    found |= {"str_": np.str_("a"), "str_ surrogate": np.str_("\ud800"), "bytes_": np.bytes_(b"a"), "void": np.void(b"a")}
    found["record"] = np.array([(1, "a")], [("x", "i8"), ("y", "U1")])[0]
    for unit in ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"):
        found |= {f"datetime64[{unit}]": np.datetime64(5, unit), f"timedelta64[{unit}]": np.timedelta64(5, unit)}
        found |= {f"datetime64[{unit}] NaT": np.datetime64("NaT", unit), f"timedelta64[{unit}] NaT": np.timedelta64("NaT", unit)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # those without a unit can still be had
        found |= {"datetime64 NaT": np.datetime64("NaT"), "timedelta64": np.timedelta64(5)}
    found["datetime64 far"] = np.datetime64(10**9, "Y")
    found |= {"array of none": np.array("a"), "array of one": np.array(["a"]), "array of objects": np.array([None, "a"], object)}
    return found | {"array without cells": np.array([]), "masked": np.ma.masked, "matrix": np.ones((2, 2)), "dtype": np.dtype("i8")}


def _pandas() -> dict[str, Any]:
    """Scalars and containers of pandas."""
    return {
        "NA": pd.NA,
        "NaT": pd.NaT,
        "Timestamp": pd.Timestamp("2024-01-31T12:00:00.000005"),
        "Timestamp ns": pd.Timestamp("2024-01-31T12:00:00.000000005"),
        "Timestamp min": pd.Timestamp.min,
        "Timestamp zone": pd.Timestamp("2024-01-31", tz="Europe/Berlin"),
        "Timestamp UTC": pd.Timestamp("2024-01-31", tz="UTC"),
        "Timestamp code": pd.Timestamp(dt.datetime(2024, 1, 31)),
        "Timedelta": pd.Timedelta("1h"),
        "Timedelta max": pd.Timedelta.max,
        "Period": pd.Period("2024-01", "M"),
        "Interval": pd.Interval(0, 1),
        "offset": pd.offsets.Day(1),
        "Series": pd.Series(["a"]),
        "Index": pd.Index(["a"]),
        "DataFrame": pd.DataFrame({"a": [1]}),
        "Categorical": pd.Categorical(["a"]),
        "dtype": pd.Int64Dtype(),
    }


ARROW: dict[str, tuple[Any, pa.DataType]] = {
    str(kind): (value, kind)
    for value, kinds in (
        (None, [pa.null()]),
        (True, [pa.bool_()]),
        (5, [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]),
        (np.float16(1.5), [pa.float16()]),  # pyarrow before 20 takes no other number
        (1.5, [pa.float32(), pa.float64()]),
        ("a", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]),
        (b"a", [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)]),
        (Decimal("1.5"), [*SMALL_DECIMALS, pa.decimal128(5, 1), pa.decimal256(5, 1)]),
        (dt.date(2024, 1, 31), [pa.date32(), pa.date64()]),
        (dt.time(12), [pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]),
        (dt.datetime(2024, 1, 31), [pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC")]),
        (dt.timedelta(1), [pa.duration("s"), pa.duration("ns")]),
        (["a"], [pa.list_(pa.string()), pa.large_list(pa.string()), pa.list_(pa.string(), 1), pa.list_view(pa.string())]),
        ({"x": 1}, [pa.struct([("x", pa.int8())])]),
        ([("a", 1)], [pa.map_(pa.string(), pa.int8())]),
    )
    for kind in kinds
}
"""A value for each type of Arrow, under the name of the type."""


def _arrow() -> dict[str, Any]:
    """Scalars of each type of Arrow, and arrays."""
    found: dict[str, Any] = {f"scalar {name}": pa.scalar(value, kind) for name, (value, kind) in ARROW.items()}
    found |= {f"null {name}": pa.scalar(None, kind) for name, (_, kind) in ARROW.items() if name in {"string", "int64", "double"}}
    found |= {f"scalar text {text}": pa.scalar(text) for text in ("1001", "5", "", "nan")}
    found |= {f"scalar large text {text}": pa.scalar(text, pa.large_string()) for text in ("1001", "5")}
    found["scalar extension"] = pa.array([b"a" * 16], pa.uuid())[0]
    return found | {"array": pa.array(["a"]), "table": pa.table({"a": [1]}), "type": pa.string(), "chunked": pa.chunked_array([["a"]])}


def _hostile() -> dict[str, Any]:
    """Instances of classes that run code."""
    found: dict[str, Any] = {}
    for does in ("raises", "outrages", "lies"):
        for base, args in BASES.items():
            made = hostile(base, does)
            found[made.__name__] = base.__new__(made, *args) if base not in {list, dict, set, bytearray} else made()
            if base in {list, dict, set, bytearray}:
                getattr(base, "__init__")(found[made.__name__], *args)  # noqa: B009
        for told in (str, bytes, Decimal, float, type(None), pa.StringScalar, dt.datetime):
            found[f"{does} about {told.__name__}"] = object.__new__(hostile(object, does, lies_about=told))
        found[f"class that {does}"] = object.__new__(_meta(does))
    return found


OBJECTS: dict[str, Any] = _python() | _numpy() | _pandas() | _arrow() | _hostile()
"""The zoo of a column of objects."""
CALLED.clear()
