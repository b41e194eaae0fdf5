"""Folders named `column=value`, as Hive, Spark and others write them: each is a column of the rows below it.

The values are those of rows. So no message shows one, and a file has a name for messages in which they are left out.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import pyarrow as pa

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.tables.sources import Partitioned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dpcore._disk.addresses import Location
    from dpcore.tables.pieces import FileInfo
    from dpcore.tables.sources import InputFile

Found = tuple["Location", "tuple[str, ...]", str]
"""A file, the names of the folders between it and what a job names, and what messages call that."""
NULL = "__HIVE_DEFAULT_PARTITION__"
"""Stands for a value that is null."""
HIDDEN = "…"
"""What messages show for a value."""
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DIGITS = re.compile(r"-?[0-9]{1,18}")
INTEGERS = f"{_INTEGER.pattern}|{_DIGITS.pattern}"
"""What stands for an integer that a job declares, if 64 bits hold it."""
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def is_partition(folder: str) -> bool:
    """Whether the name of a folder is that of a column and a value."""
    return folder.find("=") > 0


def is_hidden(name: str) -> bool:
    """Whether a name inside a folder is none of data: it begins with a dot, or a line that no column's name follows."""
    return name.startswith(".") or (name.startswith("_") and not is_partition(name))


def without_values(parts: Iterable[str]) -> list[str]:
    """Names of folders as messages show them."""
    return [f"{part.partition('=')[0]}={HIDDEN}" if is_partition(part) else part for part in parts]


@dataclass(frozen=True, slots=True)
class Columns:
    """Columns that are not in the files but in the names of their folders.

    Attributes
    ----------
    types : dict of str to pyarrow.DataType
        In the order of the folders.
    texts : dict
        Of each file: the values, decoded; None is null.
    """

    types: dict[str, pa.DataType]
    texts: dict[InputFile, tuple[str | None, ...]]

    def described(self, path: InputFile, info: FileInfo) -> FileInfo:
        """The file with these columns behind its own; raises `JobError` if it has one of them."""
        both = next((name for name in self.types if name in info.names), None)
        if both is not None:
            raise JobError(f"{path}: the column {both!r} is in the file and in the names of its folders; leave it out of one of them")
        schema = info.schema
        if schema is not None:
            for name, kind in self.types.items():
                schema = schema.append(pa.field(name, kind))
        return replace(info, names=(*info.names, *self.types), schema=schema)

    def outside(self, path: InputFile, own: Callable[[], FileInfo]) -> set[str]:  # noqa: ARG002  # as of tables with a log
        """The columns that are not in a file."""
        return set(self.types)

    def column(self, path: InputFile, name: str, rows: int, dtype: pa.DataType) -> pa.Array:
        """One of these columns for some rows of a file; `kind` is its type, or for a format without types that of all cells."""
        place = list(self.types).index(name)
        text = self.texts[path][place]
        if dtype == pa.binary() and self.types[name] != dtype:
            return pa.repeat(pa.scalar(b"" if text is None else text.encode(), dtype), rows)
        return pa.repeat(pa.scalar(_value(text, dtype), dtype), rows)


def declared_sorts(sections: Iterable[object]) -> dict[str, str]:
    """What the columns and queries of a job declare about values: "text" or "integer" for each column with listed categories or groups."""
    found: dict[str, str] = {}
    for section in sections:
        listed = getattr(section, "categories", None) or getattr(section, "candidates", None)
        named = [(getattr(section, "name" if getattr(section, "column", None) is None else "column", None), listed)]
        groups = getattr(section, "groups", None)
        by = getattr(section, "group_by", None)
        names = [by] if isinstance(by, str) else list(by or ())
        if isinstance(groups, dict):
            named += list(groups.items())
        elif isinstance(groups, list | tuple) and len(names) == 1:
            named.append((names[0], groups))
        for name, value in named:
            values = value if isinstance(value, list | tuple) else getattr(value, "values", None)
            if isinstance(name, str) and isinstance(values, list | tuple) and values:
                kinds = set(map(type, values))
                if all(issubclass(kind, str) for kind in kinds):
                    found.setdefault(name, "text")
                elif all(issubclass(kind, int) and not issubclass(kind, bool) for kind in kinds):
                    found.setdefault(name, "integer")
    return found


def partitioned(files: Sequence[Found], declared: Mapping[str, str]) -> tuple[list[InputFile], Columns | None]:
    """The names of the files of an input, and the columns that their folders are.

    Parameters
    ----------
    files : sequence of Found
        The files.
    declared : mapping of str to str
        What a job says of columns: "text" or "integer".

    Raises
    ------
    JobError
        If some files have other columns than others, or a name is not UTF-8.
    """
    found = [[_split(part, root) for part in parts if is_partition(part)] for _, parts, root in files]
    if not any(found):
        return [file for file, _, _ in files], None
    names = [tuple(name for name, _ in each) for each in found]
    _check_names(names, files[0][2])
    texts = [tuple(value for _, value in each) for each in found]
    types = {name: _type([each[place] for each in texts], declared.get(name)) for place, name in enumerate(names[0])}
    named: list[InputFile] = [
        Partitioned(file, f"{'/'.join([root, *without_values(parts), file.name])} (file {number} of {len(files)})")
        for number, (file, parts, root) in enumerate(files, 1)
    ]
    return named, Columns(types, dict(zip(named, texts, strict=True)))


def _check_names(names: list[tuple[str, ...]], root: str) -> None:
    for other in names:
        if other != names[0]:
            one, two = ("/".join(each) or "none" for each in (names[0], other))
            raise JobError(
                f"{root}: its files lie in folders of different columns ({one}; {two}), so some rows would lack a column; "
                "name folders with the same columns in the same order"
            )
    for name, times in Counter(names[0]).items():
        if times > 1:
            raise JobError(f"{root}: folders name the column {name!r} more than once; rename one")


def _split(part: str, root: str) -> tuple[str, str | None]:
    name, _, value = part.partition("=")
    try:
        return unquote_to_bytes(name).decode(), None if value == NULL else unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise JobError(f"{root}: the name of a folder of the column {name!r} is not UTF-8 once it is decoded") from None


def _type(texts: Sequence[str | None], declared: str | None) -> pa.DataType:
    """The type of a column: that which a job declares, so that no folder decides how others are read.

    With categories that are texts, 7 is one; with integers, 07 is 7, and what is no integer is missing. Of a column that is not declared
    the names of all folders decide: it has the type of which every value is written as dpcore would write it, so that none loses its form.
    """
    if declared is not None:
        return pa.string() if declared == "text" else pa.int64()
    values = {text for text in texts if text is not None}
    if not values:
        return pa.null()
    if all(map(_INTEGER.fullmatch, values)) and all(-(2**63) <= int(text) < 2**63 for text in values):
        return pa.int64()
    return pa.date32() if all(map(_is_date, values)) else pa.string()


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text).year > 0
    except ValueError:
        return False


def _value(text: str | None, dtype: pa.DataType) -> object:
    if text is None or pa.types.is_null(dtype):
        return None
    if pa.types.is_integer(dtype):
        return int(text) if _DIGITS.fullmatch(text) or (_INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**63) else None
    return date.fromisoformat(text) if pa.types.is_date(dtype) else text
