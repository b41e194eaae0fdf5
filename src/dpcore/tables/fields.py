"""Types of the values in a job file; each explains what is wrong with other values."""

from __future__ import annotations

import importlib
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import CoreSchema, PydanticKnownError
from pydantic_core.core_schema import no_info_plain_validator_function

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.pages.printable import UNPRINTABLE, printable

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_CATEGORIES = 2**24
SKIP = "skip"
"""Of `missing`: cells without a value are no value, and do not count as one."""
Category = str | int


class Section(BaseModel):
    """A table of the job file: every key known, nothing converted. Its validator is built when it is first used."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)


def no_entries() -> list[Any]:
    """An empty list, for each job its own: of a function pydantic reads the parameters at once, of `list` with a tokenizer."""
    return []


def no_names() -> dict[str, Any]:
    """An empty mapping, in the same way."""
    return {}


class CheckedBy:
    """The validator of a field whose type pydantic need not look at: a function that says it all.

    Parameters
    ----------
    function : callable
        Returns the value, or raises ValueError. For a `PlainValidator` pydantic builds the schema of the type as well.
    model : callable, optional
        Finds the model of a table, for messages about its keys.
    """

    def __init__(self, function: Callable[[Any], object], model: Callable[[], type[Section]] | None = None) -> None:
        self.function, self.model = function, model

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> CoreSchema:
        return no_info_plain_validator_function(self.function)


def apart(model: type[Section]) -> CheckedBy:
    """The validator of a table that few jobs have: it is built when the first is given, and is no part of that of all jobs."""
    return CheckedBy(model.model_validate)


def elsewhere(module: str, name: str) -> CheckedBy:
    """The same, of a model whose module is loaded then, too."""

    def model() -> type[Section]:
        found: type[Section] = getattr(importlib.import_module(module), name)
        return found

    return CheckedBy(lambda value: model().model_validate(value), model)


def tagged(tag: str, models: Mapping[str, type[Section]]) -> CheckedBy:
    """The validator of a table of which one key, the tag, says by which model it is checked: no other one is looked up."""

    def validate(value: object) -> Section:
        if isinstance(value, Section):
            return value
        if not isinstance(value, dict):
            raise PydanticKnownError("dict_type")
        given = value.get(tag)
        if not isinstance(given, str) or given not in models:
            raise PydanticKnownError("union_tag_invalid", {"discriminator": tag, "tag": "", "expected_tags": ""})
        return models[given].model_validate(value)

    return CheckedBy(validate)


def checked(check: Any, **limits: Any) -> BeforeValidator:
    """Turn a check of `_validation` into a pydantic validator; pydantic passes on ValueErrors only."""

    def validate(value: object, info: ValidationInfo) -> object:
        try:
            return check(info.field_name, value, **limits)
        except (ParameterError, ParameterTypeError) as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(validate)


def check_categories(
    value: object, key: str = "categories", *, least: Literal[1, 2] = 2, most: int = MAX_CATEGORIES, answers: bool = False
) -> tuple[Category, ...]:
    """Return categories as a tuple if they are distinct, as many as wanted, and all strings or integers, or with `answers` booleans."""
    number = {1: "one", 2: "two"}[least]
    s = "s" if least > 1 else ""
    wanted = f"{key} must be a list of at least {number} string{s}, or of at least {number} integer{s}"
    if not isinstance(value, list | tuple) or len(value) < least:
        raise ValueError(f"{wanted}, got {reprlib.repr(value)}")
    if len(value) > most:
        raise ValueError(f"{key} must be at most {most}, got {len(value)} of them")
    allowed, kinds = {str, int, bool if answers else int}, set(map(type, value))
    kind = type(value[0])
    fit = len(kinds) == 1 and kinds <= allowed and (kind is not int or (min(value) >= INT64_MIN and max(value) <= INT64_MAX))
    for position, item in enumerate(() if fit else value):
        if type(item) not in allowed or type(item) is not kind:
            advice = "; numbers that are not whole go into bins, edges = [...]" if answers and isinstance(item, float) else ""
            raise ValueError(f"{wanted}; item {position} is {reprlib.repr(item)}{advice}")
        if isinstance(item, int) and not INT64_MIN <= item <= INT64_MAX:
            raise ValueError(f"{wanted} that 64 bits hold; item {position} is {item}")
    if kind is str:
        check_encodable(key, value)
    if len(set(value)) < len(value):
        repeated, times = Counter(value).most_common(1)[0]
        raise ValueError(f"{key} must be distinct, but {reprlib.repr(repeated)} is listed {times} times")
    return tuple(value)


def check_encodable(key: str, texts: Sequence[str]) -> None:
    """Raise if a text holds half of a surrogate pair, which JSON and Python allow and UTF-8 does not."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        position, text = next((i, each) for i, each in enumerate(texts) if any("\ud800" <= letter <= "\udfff" for letter in each))
        raise ValueError(f"{key} must be text that UTF-8 can hold; item {position} is {reprlib.repr(text)}") from None


def _check_categories(value: object) -> tuple[Category, ...]:
    return check_categories(value)


def _check_pair(value: object) -> tuple[Category, ...]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"categories of a binary column are [false_value, true_value], got {reprlib.repr(value)}")
    return check_categories(value)


def _check_category(value: object) -> Category:
    if type(value) not in {str, int}:
        raise ValueError(f"must be one of the categories, a string or an integer, got {reprlib.repr(value)}")
    return value  # type: ignore[return-value]


def _check_answer(value: object) -> Category | bool:
    return value if isinstance(value, bool) else _check_category(value)


def _check_number_or_skip(value: object) -> float | str:
    return (
        SKIP if isinstance(value, str) and value == SKIP else _checked_missing(check_real, value, -sys.float_info.max, sys.float_info.max)
    )


def _check_integer_or_skip(value: object) -> int | str:
    found: int | str = SKIP if isinstance(value, str) and value == SKIP else _checked_missing(check_integer, value, INT64_MIN, INT64_MAX)
    return found


def _checked_missing(check: Any, value: object, low: float, high: float) -> Any:
    if isinstance(value, str):
        raise ValueError(f'missing must be a number, or "{SKIP}" for estimates about those who answered, got {reprlib.repr(value)}')  # noqa: TRY004  pydantic passes on ValueErrors only
    try:
        return check("missing", value, low=low, high=high)
    except (ParameterError, ParameterTypeError) as error:
        raise ValueError(str(error)) from None


def _check_printable(value: str) -> str:
    if UNPRINTABLE.search(value):
        raise ValueError(f"must not hold control characters, got {printable(reprlib.repr(value))}")
    return value


Positive = Annotated[float, checked(check_positive)]
Finite = Annotated[float, checked(check_real, low=-sys.float_info.max, high=sys.float_info.max)]
Delta = Annotated[float, checked(check_real, low=0.0, high=1.0, include_low=False, include_high=False)]
Int64 = Annotated[int, checked(check_integer, low=INT64_MIN, high=INT64_MAX)]
FiniteOrSkip = Annotated[float | Literal["skip"], CheckedBy(_check_number_or_skip)]
Int64OrSkip = Annotated[int | Literal["skip"], CheckedBy(_check_integer_or_skip)]
CategoryCount = Annotated[int, checked(check_integer, low=2, high=MAX_CATEGORIES)]
CategoryList = Annotated[tuple[Category, ...], CheckedBy(_check_categories)]
CategoryPair = Annotated[tuple[Category, ...], CheckedBy(_check_pair)]
OneCategory = Annotated[Category, CheckedBy(_check_category)]
OneAnswer = Annotated[Category | bool, CheckedBy(_check_answer)]
Name = Annotated[str, Field(min_length=1), AfterValidator(_check_printable)]
