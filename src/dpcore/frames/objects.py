"""Python objects as text, by one rule that looks at each cell alone and calls no method of a class that is not listed here.

A class can say anything about itself: its `__class__`, its metaclass, its buffers and its numbers run the code of its author. So a type
is known by its identity, or by what it derives from, and only methods of the types below are called.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from dpcore._backend import encode_objects

Rule = Callable[[Any], str | None]

MOST_BITS = 1024
MOST_PLACES = 100
ZONES = (type(None), dt.timezone, ZoneInfo)
"""Time zones that are asked for their offset."""


def texts(cells: list[object]) -> pa.Array:
    """Objects as text, each by itself."""
    import pandas as pd

    found = encode_objects(cells, text_of, (pd.NA, pd.NaT))
    absent = len(cells) - int(np.count_nonzero(found.present))
    valid = pa.py_buffer(np.packbits(found.present, bitorder="little")) if absent else None
    buffers = [valid, pa.py_buffer(found.offsets), pa.py_buffer(found.content)]
    return pa.Array.from_buffers(pa.large_string(), len(cells), buffers, absent)


def text_of(cell: Any) -> str | None:
    """A cell as text: text, a number, a truth value, a date or time, a UUID; None for everything else."""
    kind = type(cell)
    rule = _rules().get(id(kind))
    if rule is not None:
        try:
            return rule(cell)
        except Exception:  # beyond the years of a calendar, or a view that was released
            return None
    return next((of_base(cell) for base, of_base in BASES.items() if issubclass(kind, base)), None)


def _of_bytes(cell: bytes) -> str | None:
    return _decoded(bytes.__getitem__(cell, slice(None)))


def _of_bytearray(cell: bytearray) -> str | None:
    return _decoded(bytes(bytearray.__getitem__(cell, slice(None))))


def _decoded(text: bytes) -> str | None:
    """None if the bytes are not UTF-8."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


BASES: dict[type, Rule] = {str: str.__str__, bytes: _of_bytes, bytearray: _of_bytearray}
"""Types whose subclasses are read as what they derive from."""


def _of_integer(cell: int) -> str | None:
    return int.__repr__(cell) if cell.bit_length() <= MOST_BITS else None


def _of_float(cell: float) -> str | None:
    return None if math.isnan(cell) else float.__repr__(cell)


def _of_decimal(cell: Decimal) -> str | None:
    """Plain notation; None if it is no number, or longer than any that a database holds."""
    return f"{cell:f}" if cell.is_finite() and max(abs(int(cell.as_tuple().exponent)), abs(cell.adjusted())) <= MOST_PLACES else None


def _of_time(cell: Any) -> str | None:
    from dpcore.tables.types.timed import timed

    zone = type(getattr(cell, "tzinfo", None))  # any other would be asked for its offset
    found = timed(cell) if any(zone is known for known in ZONES) else None
    return None if found is None else repr(found)


def _of_uuid(cell: UUID) -> str | None:
    return str(cell) if type(cell.int) is int else None


@cache
def _rules() -> dict[int, Rule]:
    """The rule of each type, by its identity: to look for a type itself would ask its class."""
    import pandas as pd

    integers: dict[type, Rule] = {np.dtype(code).type: lambda cell: _of_integer(cell.item()) for code in "bhilqBHILQ"}
    floats: dict[type, Rule] = {kind: lambda cell: _of_float(cell.item()) for kind in (np.float16, np.float32, np.float64)}
    times: dict[type, Rule] = dict.fromkeys((dt.date, dt.datetime, dt.time, dt.timedelta, pd.Timestamp, pd.Timedelta), _of_time)
    rules: dict[type, Rule] = {
        bool: str,
        np.bool_: str,
        int: _of_integer,
        float: _of_float,
        Decimal: _of_decimal,
        UUID: _of_uuid,
        memoryview: lambda cell: _decoded(cell.tobytes()),
        **integers,
        **floats,
        **times,
    }
    return {id(kind): rule for kind, rule in rules.items()}
