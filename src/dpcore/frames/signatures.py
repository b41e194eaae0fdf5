"""Signature and docstring of a method of tables, from the fields of its query."""

from __future__ import annotations

import inspect
import json
import textwrap
import types
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from dpcore._dataclasses import dataclass
from dpcore.query.kinds import METHODS, kind_at
from dpcore.query.methods import InPython

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from dpcore.query.methods import Method
    from dpcore.query.request import QuerySection

RETURNED = "TableResult"
WIDTH = 132
"""Columns of a docstring, which a stub indents by eight."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a method.

    Attributes
    ----------
    name : str
        Its name, which is the key of the query.
    annotation : str
        Its type, in the signature.
    words : str
        Its type, in the docstring.
    meaning : str
        What it means.
    is_required : bool
        Whether it has no default; others have None.
    lists_values : bool
        Whether it lists values of a column.
    """

    name: str
    annotation: str
    words: str
    meaning: str
    is_required: bool
    lists_values: bool

    @classmethod
    def of(cls, name: str, fields: type[QuerySection]) -> Argument:
        """The one of a key."""
        field = fields.model_fields[name]
        if field.description is None:
            raise TypeError(f"{fields.__name__}.{name} has no description, which methods of tables need")
        said = _type_of(field)
        replaced: dict[str, object] = getattr(fields, "found_between", dict)()  # these keys are required unless bounds are found
        required = field.is_required() and name != "name" and name not in replaced
        annotation, words = (said.annotation, said.words) if required else (f"{said.annotation} | None", f"{said.words}, optional")
        return cls(name, annotation, words, field.description, required, said.lists_values)


@dataclass(frozen=True, slots=True)
class Described:
    """A method of tables, and the query that it asks.

    Attributes
    ----------
    method : Method
        What the kind says.
    kind : str
        The kind of the query.
    arguments : tuple of Argument
        Its arguments; the first one needs no name.
    """

    method: Method
    kind: str
    arguments: tuple[Argument, ...]

    @classmethod
    def of(cls, name: str) -> Described:
        """The method of a name."""
        kind = kind_at(METHODS[name])
        for word, fields, method in zip(kind.names, kind.fields, kind.methods, strict=True):
            if method.name == name:
                return cls(method, word, tuple(Argument.of(key, fields) for key in method.arguments(kind.column_key)))
        raise TypeError(f"{METHODS[name]} has no method {name!r}")

    @property
    def signature(self) -> inspect.Signature:
        """With the table as the first parameter."""
        column, *others = self.arguments
        parameters = [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            _parameter(column, inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(_parameter(each, inspect.Parameter.KEYWORD_ONLY) for each in others),
        ]
        return inspect.Signature(parameters, return_annotation=RETURNED)

    @property
    def docstring(self) -> str:
        """In the form of numpydoc; arguments that follow each other and mean the same have one entry."""
        lines = [self.method.does, "", "Parameters", "----------"]
        for (words, meaning), same in groupby(self.arguments, lambda each: (each.words, each.meaning)):
            lines += [f"{', '.join(each.name for each in same)} : {words}", *_wrapped(meaning)]
        return "\n".join([*lines, "", "Returns", "-------", RETURNED, *_wrapped(self.method.returns), ""])


def _parameter(argument: Argument, kind: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if argument.is_required else None
    return inspect.Parameter(argument.name, kind, default=default, annotation=argument.annotation)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _type_of(field: FieldInfo) -> InPython:
    """What the field says, or follows from its type."""
    (kind,) = (each for each in _either(field.annotation) if each is not types.NoneType)
    if said := [each for each in (*getattr(kind, "__metadata__", ()), *field.metadata) if isinstance(each, InPython)]:
        return said[-1]
    if get_origin(kind) is Literal:
        values = get_args(kind)
        listed = ", ".join(map(json.dumps, values))
        return InPython(f"Literal[{', '.join(map(repr, values))}]", listed if len(values) == 1 else f"{{{listed}}}")
    plain = getattr(kind, "__origin__", kind)
    if plain not in {str, int, float, bool}:
        raise TypeError(f"{kind} has no type for callers of Python: annotate the field with InPython")
    return InPython(plain.__name__, plain.__name__)


def _either(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
