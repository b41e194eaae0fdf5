"""Settings of one run: keys of a job that the command line sets, and the words `${NAME}` in its values.

A schedule runs one job file many times. What differs from run to run comes from the command line and from nowhere else: no variable of the
environment is read, so that a run can be repeated from its command.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from datetime import UTC, date, datetime
from typing import Any, get_args

from pydantic import BaseModel

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError
from dpcore.pages.printable import UNPRINTABLE
from dpcore.tables.mistakes import guessed

Part = str | int
IsText = Callable[[Sequence[Part], Mapping[str, Any]], bool]
"""Whether the key at a place of a document holds text."""
NAME = re.compile(r"[A-Z][A-Z0-9_]*")
ENTRY = re.compile(r"([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\[([0-9]{1,6})\](?:\.(.+))?", re.DOTALL)
"""A key of a repeated table by its place: `query[0].epsilon`, or `per_unit.join[0].path`."""
WORD = re.compile(r"\$(\$*)\{(?:([^{}]*)\})?")
"""`${NAME}`, `$${NAME}`, and `${` without its end."""
MOST_KEY = 1000
MOST_BITS = 4096
"""Of an integer: Python does not write down those that are much longer, which TOML has in hexadecimal digits."""
DATE = "DATE"


def today() -> str:
    """The date in UTC, as `${DATE}` writes it."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line of one run sets.

    Attributes
    ----------
    keys : tuple of (str, str)
        Keys of the job, dotted as in TOML, with their values as they were typed.
    variables : mapping
        Values of the words `${NAME}`.
    """

    keys: tuple[tuple[str, str], ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, given: Sequence[str] = (), *, source: str | None = None, target: str | None = None) -> Settings:
        """Read the options of a command.

        Parameters
        ----------
        given : sequence of str, default ()
            Each `KEY=VALUE`: a name in capitals is a variable, anything else a key of the job.
        source, target : str, optional
            `--input` and `--output`: short for `input.path` and `output.path`.
        """
        keys = [(key, path) for key, path in (("input.path", source), ("output.path", target)) if path is not None]
        variables: dict[str, str] = {}
        for text in given:
            key, value = _split(text)
            if not NAME.fullmatch(key):
                keys.append((key, value))
            elif key in variables:
                raise JobError(f"--set {key} is given twice")
            else:
                variables[key] = _checked_variable(key, value)
        return cls(tuple(keys), variables)

    def written(self) -> list[str]:
        """The settings as they were typed, for documents."""
        return [f"{key}={value}" for key, value in (*self.keys, *self.variables.items())]

    def applied(self, document: dict[str, Any], is_text: IsText) -> dict[str, Any]:
        """Return a document with these keys and variables.

        Parameters
        ----------
        document : dict
            A job as TOML gives it. It is changed.
        is_text : callable
            Says which keys hold text: there `2026` is no number.

        Raises
        ------
        JobError
            If a key is not one of TOML, a repeated table has no such entry, a variable is not set, or one that is set is not used.
        """
        for key, value in self.keys:
            _set(document, key, value, is_text)
        words = _Words({DATE: today(), **self.variables})
        replaced = {key: words.replaced(value, key) for key, value in document.items()}
        for name in self.variables:
            if name not in words.used:
                raise JobError(f"  --set {name}=…: no value of the job holds ${{{name}}}{_instead(name, words.used)}")
        return replaced


def _instead(name: str, used: set[str]) -> str:
    return guessed(name, sorted(used)) or ("; a key of the job is written in small letters, as in privacy.max_epsilon" if not used else "")


def _checked_variable(name: str, value: str) -> str:
    if UNPRINTABLE.search(value):
        raise JobError(f"--set {name}=…: the value must not hold control characters")
    if name == DATE:
        try:
            date.fromisoformat(value)
        except ValueError:
            raise JobError(f"--set DATE={value}: must be a date such as 2026-11-23") from None
    return value


def _split(text: str) -> tuple[str, str]:
    """Key and value: a name in quotes may hold a sign of equality."""
    end = text.find("=")
    while end != -1:
        key = text[:end].strip()
        if NAME.fullmatch(key) or _parts(key):
            return key, text[end + 1 :]
        end = text.find("=", end + 1)
    raise JobError(f"--set {text[:60]!r}: must be KEY=VALUE, as in privacy.max_epsilon=2 or REGION=north")


def _parts(key: str) -> tuple[Part, ...]:
    """The parts of a key, as TOML reads it; none if it is not a key."""
    entry = ENTRY.fullmatch(key)
    if entry is not None:
        rest = () if entry[3] is None else _parts(entry[3])
        return () if entry[3] is not None and not rest else (*entry[1].split("."), int(entry[2]), *rest)
    if not key or len(key) > MOST_KEY or "\n" in key or "#" in key.partition('"')[0]:
        return ()
    try:
        found = tomllib.loads(f"{key} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    parts: list[Part] = []
    value: Any = found
    while isinstance(value, dict):
        if len(value) != 1:
            return ()
        [(part, value)] = value.items()
        parts.append(part)
    return tuple(parts)


def _set(document: dict[str, Any], key: str, text: str, is_text: IsText) -> None:
    """Set one key of a document."""
    *path, last = parts = _resolved(document, key)
    table: Any = document
    for part in path:
        if isinstance(part, int) and not (isinstance(table, list) and part < len(table)):
            raise JobError(f"  --set {key}=…: the job has {len(table)} of these tables, counted from 0")
        if isinstance(table, list) and not isinstance(part, int):
            raise JobError(f"  --set {key}=…: name one of several tables, as in query[0].epsilon")
        if isinstance(table, dict) and part not in table:
            table[part] = {}
        table = table[part]
        if not isinstance(table, dict | list):
            raise JobError(f"  --set {key}=…: {part} is a value of the job, and no table")
    if isinstance(table, list) and not isinstance(last, int):
        raise JobError(f"  --set {key}=…: name one of several tables, as in query[0].epsilon")
    if isinstance(last, int) and not (isinstance(table, list) and last < len(table)):
        raise JobError(f"  --set {key}=…: the job has {len(table)} of these tables, counted from 0")
    table[last] = _unquoted(text) if is_text(parts, document) else _typed(text)


def _resolved(document: Mapping[str, Any], key: str) -> list[Part]:
    """The place of a key; an entry of a repeated table is named by its `name` or by its number."""
    parts = list(_parts(key))
    entries = document.get(str(parts[0]))
    if not isinstance(entries, list):
        if len(parts) > 1 and isinstance(parts[1], int):
            raise JobError(f"  --set {key}=…: the job has no [[{parts[0]}]]")
        return parts
    if len(parts) < 2:
        return parts
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    if isinstance(parts[1], int):
        if parts[1] >= len(names):
            raise JobError(f"  --set {key}=…: the job has {len(names)} [[{parts[0]}]], counted from 0")
        return parts
    if parts[1] not in names:
        guess = guessed(str(parts[1]), [name for name in names if isinstance(name, str)])
        raise JobError(f"  --set {key}=…: no [[{parts[0]}]] of the job is named {parts[1]!r}{guess}")
    return [parts[0], names.index(parts[1]), *parts[2:]]


def _unquoted(text: str) -> str:
    """Text, which needs no quotes; a whole string of TOML is what it stands for."""
    found = _typed(text) if text[:1] in {'"', "'"} else text
    return found if isinstance(found, str) else text


def _typed(text: str) -> Any:
    """A value as TOML writes it; text that is not TOML stands for itself."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return text
    return found["value"] if list(found) == ["value"] else text


class _Words:
    """Puts the values of variables into strings."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self.used: set[str] = set()

    def replaced(self, value: Any, path: str) -> Any:
        """The same value with all words replaced; keys of tables stay as they are."""
        match value:
            case str():
                return WORD.sub(lambda found: self._word(found, path), value)
            case list():
                return [self.replaced(item, f"{path}[{place}]") for place, item in enumerate(value)]
            case dict():
                return {key: self.replaced(item, f"{path}.{key}") for key, item in value.items()}
            case int() if value.bit_length() > MOST_BITS:
                raise JobError(f"  {path}: a number is too long")
        return value

    def _word(self, found: re.Match[str], path: str) -> str:
        dollars, name = found[1], found[2]
        if dollars:
            return found[0][1:]  # $${NAME} stands for ${NAME}
        if name is None or not NAME.fullmatch(name):
            raise JobError(
                f"  {path}: {found[0]!r} is no variable: ${{NAME}} has a name of capital letters, digits and _; write $${{ for a plain ${{"
            )
        if name not in self._values:
            guess = guessed(name, list(self._values))
            raise JobError(f"  {path}: ${{{name}}} is not set; give --set {name}=VALUE (the environment is not read){guess}")
        self.used.add(name)
        return self._values[name]


# Which keys hold text


def is_text_in(section: type[BaseModel], key: str) -> bool:
    """Whether a key of a model holds text only."""
    known = section.model_fields.get(key)
    kinds = set() if known is None else _kinds(known.annotation)
    return str in kinds and not kinds & {int, float, bool, tuple, list, dict}


def _kinds(annotation: Any) -> set[Any]:
    parts = get_args(annotation)
    found: set[Any] = {annotation if isinstance(annotation, type) else type(annotation), getattr(annotation, "__origin__", None)}
    return found.union(*map(_kinds, parts)) if parts else found
