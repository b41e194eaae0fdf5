"""The footer of a Parquet file as a tree: read, changed, and written again, in the compact protocol of Thrift.

(Source: Apache Thrift, "Thrift Compact protocol encoding".)
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from fuzz.choices import NUMBERS

if TYPE_CHECKING:
    import random

MAGIC = b"PAR1"
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
INTEGERS = (I16, I32, I64)
DEEPEST = 30

Field = list[Any]
"""Number, type and value of a field."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def varint(self) -> int:
        found = shift = 0
        while True:
            each = self.byte()
            found |= (each & 127) << shift
            shift += 7
            if each < 128:
                return found
            if shift > 70:
                raise ValueError(shift)

    def bytes_of(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError(size)
        self._at += size
        return self._data[self._at - size : self._at]

    def struct(self, depth: int = 0) -> list[Field]:
        fields: list[Field] = []
        last = 0
        while head := self.byte():
            kind, step = head & 15, head >> 4
            last = last + step if step else _zigzag(self.varint())
            fields.append([last, kind, self.value(kind, depth + 1)])
        return fields

    def value(self, kind: int, depth: int, *, inside: bool = False) -> Any:
        if depth > DEEPEST:
            raise ValueError(depth)
        match kind:
            case 1 | 2:
                return self.byte() if inside else kind
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return _zigzag(self.varint())
            case 7:
                return self.bytes_of(8)
            case 8:
                return self.bytes_of(self.varint())
            case 9 | 10:
                head = self.byte()
                size = self.varint() if head >> 4 == 15 else head >> 4
                if size > len(self._data):
                    raise ValueError(size)
                return [head & 15, [self.value(head & 15, depth + 1, inside=True) for _ in range(size)]]
            case 12:
                return self.struct(depth)
        raise ValueError(kind)


def _zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def _unsigned(number: int) -> int:
    return (number << 1 ^ number >> 63) % 2**64


def _written(fields: list[Field]) -> bytes:
    found, last = b"", 0
    for number, kind, value in fields:
        step = number - last
        head = bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _varint(_unsigned(number))
        found += head + _content(kind, value)
        last = number
    return found + b"\0"


def _content(kind: int, value: Any, *, inside: bool = False) -> bytes:
    match kind:
        case 1 | 2:
            return bytes([value]) if inside else b""
        case 3:
            return bytes([value % 256])
        case 4 | 5 | 6:
            return _varint(_unsigned(value))
        case 7:
            return value
        case 8:
            return _varint(len(value)) + value
        case 9 | 10:
            inner, items = value
            head = bytes([len(items) << 4 | inner]) if len(items) < 15 else bytes([15 << 4 | inner]) + _varint(len(items))
            return head + b"".join(_content(inner, each, inside=True) for each in items)
        case 12:
            return _written(value)
    raise ValueError(kind)


def footer(data: bytes) -> list[Field] | None:
    """The fields of a footer; None if there is none."""
    if len(data) < 12 or data[-4:] != MAGIC:
        return None
    (size,) = struct.unpack("<I", data[-8:-4])
    if size > len(data) - 12:
        return None
    try:
        return _Reader(data[-8 - size : -8]).struct()
    except (IndexError, ValueError):
        return None


def with_footer(data: bytes, fields: list[Field]) -> bytes:
    """The file with these fields in its footer."""
    (size,) = struct.unpack("<I", data[-8:-4])
    content = _written(fields)
    return data[: -8 - size] + content + struct.pack("<I", len(content)) + MAGIC


def with_another_footer(data: bytes, rng: random.Random) -> bytes | None:
    """The file with one to three changes of its footer; None if it has none."""
    fields = footer(data)
    if fields is None:
        return None
    for _ in range(rng.choice((1, 1, 2, 3))):
        _change(fields, rng)
    try:
        return with_footer(data, fields)
    except (ValueError, TypeError):
        return None


def _change(fields: list[Field], rng: random.Random) -> None:
    nodes = _structs(fields)
    fields = rng.choice(nodes)
    if not fields:
        return
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    match rng.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(at, [number, kind, value])
        case 2:
            fields[at] = [rng.choice((number + 1, max(number - 1, 1), rng.randrange(1, 16))), kind, value]
        case _:
            fields[at] = [number, kind, _other(kind, value, rng)]


def _structs(fields: list[Field]) -> list[list[Field]]:
    found = [fields]
    for _, kind, value in fields:
        if kind == STRUCT:
            found += _structs(value)
        elif kind in {LIST, SET} and value[0] == STRUCT:
            found += [node for each in value[1] for node in _structs(each)]
    return found


def _other(kind: int, value: Any, rng: random.Random) -> Any:
    if kind in INTEGERS:
        return rng.choice((value + 1, value - 1, -value, *NUMBERS)) if rng.random() < 0.7 else rng.randrange(32)
    if kind == BINARY:
        text = bytearray(value)
        if text and rng.random() < 0.6:
            text[rng.randrange(len(text))] = rng.randrange(256)
            return bytes(text)
        return rng.choice((b"", b"visits", b"text", b"\xff\xfe", bytes(text) * 2, bytes(text[: len(text) // 2]), b"\0"))
    if kind in {LIST, SET}:
        inner, items = value
        items = list(items)
        chosen = rng.randrange(4)
        if items and chosen == 0:
            del items[rng.randrange(len(items))]
        elif items and chosen == 1 and len(items) < 200:
            items.insert(rng.randrange(len(items)), rng.choice(items))
        elif items and chosen == 2 and inner in {BYTE, *INTEGERS}:
            items[rng.randrange(len(items))] = rng.choice(NUMBERS)
        elif len(items) > 1:
            rng.shuffle(items)
        return [inner, items]
    if kind in {TRUE, FALSE}:
        return value
    return value
