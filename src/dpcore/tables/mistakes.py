"""What is wrong with a job, as values: where, what is there, and which rule it breaks. Each door words them for what its users type."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from dpcore._dataclasses import dataclass
from dpcore.errors import JobError, ParameterTypeError
from dpcore.tables.fields import CheckedBy
from dpcore.tables.near_names import near_name

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from dpcore.tables.sections import JobTables

    Job = TypeVar("Job", bound=JobTables)

Keys = tuple[int | str, ...]
Sections = Mapping[str, "type[BaseModel]"]
Rule = Literal["value", "expression", "empty", "unknown key", "missing", "unknown word"]
NO_VALUE = object()
MOST_LINES = 20
"""Mistakes that are listed."""
WANTED = {
    "string_type": "a string",
    "string_unicode": "a string that UTF-8 can hold, without halves of surrogate pairs",
    "string_too_short": "a string that is not empty",
    "string_pattern_mismatch": "64 hexadecimal digits",
    "list_type": "a list",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
}
"""Expected values, for findings of pydantic about types."""
RENAMED = {
    "variant": "method",
    "calibration": "method",
    "rows": "draws",
    "quantile": "q",
    "levels": "q",
    "cuts": "edges",
    "eps": "epsilon",
    "min": "lower",
    "max": "upper",
}
"""Keys of earlier versions, and words for the same thing elsewhere, with the keys that jobs have."""


@dataclass(frozen=True, slots=True)
class Entries:
    """The repeated table of a job: `[[column]]` or `[[query]]`.

    Attributes
    ----------
    table : str
        Its name.
    tag : str
        The key that says which model an entry has.
    models : mapping
        Model of an entry for each value of the tag.
    """

    table: str
    tag: str
    models: Sections


PRIVATE_BOUNDS = ': a number that you know without the data; or bounds = "private" with bounds_epsilon finds lower and upper'


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with one key of a job. Of the data it knows nothing.

    Attributes
    ----------
    path : tuple of str and int
        The keys that lead to it; () for what is wrong with several together.
    text : str
        What is allowed, in words.
    value : object
        What is there.
    rule : str
        What it breaks.
    allowed : tuple of str
        The words of which it must be one.
    near : str or None
        That of them which may be meant.
    about : str
        What is said behind the path: which entry it is.
    part : str
        Which part of that it is about.
    name : str or None
        The name of its entry, if the path alone says which it is.
    """

    path: Keys
    text: str = ""
    value: object = NO_VALUE
    rule: Rule = "value"
    allowed: tuple[str, ...] = ()
    near: str | None = None
    about: str = ""
    part: str = ""
    name: str | None = None

    def __str__(self) -> str:
        place = dotted_path(self.path) + self.about
        return self.sentence(f"{place}, {self.part}" if self.part else place) + self.named

    @property
    def named(self) -> str:
        """The name of the entry, at the end of a sentence."""
        return "" if self.name is None else f" ({self.path[0]} {self.name!r})"

    def sentence(self, place: str) -> str:
        """The mistake at a place, as a door calls it; "" is for a text that names it."""
        shown = "" if self.value is NO_VALUE else f" = {_shown(self.value)}"
        words = ", ".join(map(repr, self.allowed))
        match self.rule:
            case "unknown key":
                return f"{place}: unknown key; allowed here: {', '.join(self.allowed)}{self.guess}"
            case "missing":
                return f"{place} is required{self.text}"
            case "unknown word" if self.value is None:
                return f"{place} is required: one of {words}"
            case "expression":
                return f"{place} = {self.value!r} {self.text}"
            case "unknown word":
                return f"{place}{shown} is unknown: must be one of {words}{self.guess}"
        return f"{place}{shown}: {self.text}" if place else self.text

    @property
    def guess(self) -> str:
        """The word that may be meant."""
        if self.near is None:
            return ""
        is_renamed = self.rule == "unknown key" and RENAMED.get(str(self.path[-1])) == self.near
        return f"; write {self.near} in its place" if is_renamed else f"; did you mean {self.near!r}?"


class MistakesError(JobError):
    """A job has mistakes."""

    def __init__(self, *mistakes: Mistake) -> None:
        self.mistakes = mistakes
        super().__init__(listed(map(str, mistakes)))

    def __reduce__(self) -> tuple[Any, ...]:
        return JobError, (str(self),)


class PlacedError(ValueError):
    """What a validator of the whole job finds at one place of it."""

    def __init__(self, *path: int | str, text: str, about: str = "") -> None:
        self.path, self.text, self.about = path, text, about
        super().__init__(text)


def _shown(value: object) -> str:
    """A value in a message."""
    try:
        return reprlib.repr(value)
    except ValueError:  # Python does not write down an integer of thousands of digits
        return "…"


def listed(lines: Iterable[str]) -> str:
    """One line for each mistake, but for the last of many."""
    found = list(lines)
    return "\n".join(found[:MOST_LINES] + ([f"… and {len(found) - MOST_LINES} more"] if len(found) > MOST_LINES else []))


def checked(model: type[Job], document: object, entries: Entries) -> Job:
    """Check a document against the model of a job.

    Parameters
    ----------
    model : type
        Of the whole job.
    document : object
        What `tomllib` made of a file, or the same from a program.
    entries : Entries
        The repeated table.

    Returns
    -------
    model
        The job.

    Raises
    ------
    MistakesError
        If something is wrong.
    ParameterTypeError
        If the document is not a mapping.
    """
    if not isinstance(document, Mapping):
        raise ParameterTypeError(f"document must be a dict, as tomllib.load returns it, got {type(document).__name__}")
    try:
        return model.model_validate(dict(document))
    except ValidationError as error:
        found = error.errors(include_url=False)
        raise MistakesError(*(_mistake(details, document, sections_of(model), entries) for details in found)) from None


def sections_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model of each table of a job, with "" for the whole file."""
    sections: dict[str, type[BaseModel]] = {"": model}
    for name, field in model.model_fields.items():
        for part in _parts_of(field.annotation):
            kind = part.model() if isinstance(part, CheckedBy) and part.model is not None else part
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                sections[name] = kind
    return sections


def _mistake(details: ErrorDetails, document: Mapping[str, Any], sections: Sections, entries: Entries) -> Mistake:
    path, kind, value = details["loc"], details["type"], details["input"]
    name = _name_of(path, document, entries.table)
    match kind:
        case "extra_forbidden":
            known = tuple(_model_at(path[:-1], document, sections, entries).model_fields)
            renamed = RENAMED.get(str(path[-1]))
            near = renamed if renamed in known else nearest(path[-1], known)
            return Mistake(path, value=value, rule="unknown key", allowed=known, near=near, name=name)
        case "missing":
            private = path[-1] == "lower" and "bounds" in _model_at(path[:-1], document, sections, entries).model_fields
            return Mistake(path, PRIVATE_BOUNDS if private else "", value, rule="missing", name=name)
        case "union_tag_invalid":
            given = value.get(entries.tag) if isinstance(value, dict) else None
            # The strict rule: of two statistics with similar names, one is never proposed for the other.
            near = near_name(given, entries.models) if isinstance(given, str) else None
            return Mistake((*path, entries.tag), value=given, rule="unknown word", allowed=tuple(entries.models), near=near, name=name)
        case "literal_error":
            return Mistake(path, f"must be {details['ctx']['expected']}", value, name=name)
        case "too_short":
            return Mistake(path, "must not be empty", rule="empty", name=name)
        case "value_error":
            cause = details["ctx"]["error"]
            if isinstance(cause, PlacedError):
                return Mistake(cause.path, cause.text, about=cause.about)
            return Mistake(path, str(cause), name=name)
        case "string_pattern_mismatch":
            return Mistake(path, f"must be {WANTED[kind]}", name=name)
    return Mistake(path, f"must be {WANTED.get(kind, details['msg'].removeprefix('Input should be '))}", value, name=name)


def _name_of(path: Keys, document: Mapping[str, Any], table: str) -> str | None:
    """The name of the entry that a path like `column[3]` stands for."""
    if len(path) < 2 or path[0] != table:
        return None
    entry = document[table][path[1]]
    name = entry.get("name") if isinstance(entry, dict) else None
    return name if isinstance(name, str) else None


def _model_at(table: Keys, document: Mapping[str, Any], sections: Sections, entries: Entries) -> type[BaseModel]:
    """The model of the table that holds a key."""
    keys = [part for part in table if isinstance(part, str)]
    if not keys or keys[0] != entries.table:
        return sections[keys[0] if keys else ""]
    model = entries.models[document[entries.table][table[1]][entries.tag]]
    return model if len(keys) == 1 else _table_in(model, keys[1]) or model


def _table_in(model: type[BaseModel], key: str) -> type[BaseModel] | None:
    """The model of a table, or of those in a list, inside of a table; None if the key has no table."""
    parts = _parts_of(model.model_fields[key].annotation)
    return next((each for each in parts if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _parts_of(annotation: Any) -> Iterator[Any]:
    yield annotation
    for part in get_args(annotation):
        yield from _parts_of(part)


def dotted_path(path: Keys) -> str:
    """Write ("column", 0, "epsilon") as `column[0].epsilon`."""
    dotted = ""
    for part in path:
        dotted += f"[{part}]" if isinstance(part, int) else f".{part}" if dotted else part
    return dotted


def nearest(word: object, known: Sequence[str] | Mapping[str, object]) -> str | None:
    """The one of some words, all of which are public, that may be meant; None if none is near."""
    import difflib

    close = difflib.get_close_matches(str(word), list(known), n=1)
    return close[0] if close else None


def guessed(word: object, known: Sequence[str] | Mapping[str, object]) -> str:
    """Suggest one of the words that may be meant; "" if none is near."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"
