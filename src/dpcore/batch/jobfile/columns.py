"""The `[[column]]` tables of a job file: what each mechanism must be told."""

from __future__ import annotations

import reprlib
import sys
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo, model_validator

from dpcore._validation import check_integer, check_positive, check_real
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.pages.printable import UNPRINTABLE, printable
from dpcore.privacy import Privacy

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
MAX_CATEGORIES = 2**24

Category = str | int


class Section(BaseModel):
    """A table of the job file: every key known, nothing converted."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def checked(check: Any, **limits: Any) -> BeforeValidator:
    """Turn a check of `_validation` into a pydantic validator; pydantic passes on ValueErrors only."""

    def validate(value: object, info: ValidationInfo) -> object:
        try:
            return check(info.field_name, value, **limits)
        except (ParameterError, ParameterTypeError) as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(validate)


def check_categories(
    value: object, key: str = "categories", *, least: Literal[1, 2] = 2, most: int = MAX_CATEGORIES
) -> tuple[Category, ...]:
    """Return categories as a tuple if they are distinct, as many as wanted, and all strings or all integers."""
    number = {1: "one", 2: "two"}[least]
    s = "s" if least > 1 else ""
    wanted = f"{key} must be a list of at least {number} string{s}, or of at least {number} integer{s}"
    if not isinstance(value, list | tuple) or len(value) < least:
        raise ValueError(f"{wanted}, got {reprlib.repr(value)}")
    if len(value) > most:
        raise ValueError(f"{key} must be at most {most}, got {len(value)} of them")
    kind = type(value[0])
    for position, item in enumerate(value):
        if type(item) not in {str, int} or type(item) is not kind:
            raise ValueError(f"{wanted}; item {position} is {reprlib.repr(item)}")
        if isinstance(item, int) and not INT64_MIN <= item <= INT64_MAX:
            raise ValueError(f"{wanted} that 64 bits hold; item {position} is {item}")
    if len(set(value)) < len(value):
        repeated, times = Counter(value).most_common(1)[0]
        raise ValueError(f"{key} must be distinct, but {reprlib.repr(repeated)} is listed {times} times")
    return tuple(value)


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


def _check_printable(value: str) -> str:
    if UNPRINTABLE.search(value):
        raise ValueError(f"must not hold control characters, got {printable(reprlib.repr(value))}")
    return value


Positive = Annotated[float, checked(check_positive)]
Finite = Annotated[float, checked(check_real, low=-sys.float_info.max, high=sys.float_info.max)]
Delta = Annotated[float, checked(check_real, low=0.0, high=1.0, include_low=False, include_high=False)]
Int64 = Annotated[int, checked(check_integer, low=INT64_MIN, high=INT64_MAX)]
CategoryCount = Annotated[int, checked(check_integer, low=2, high=MAX_CATEGORIES)]
CategoryList = Annotated[tuple[Category, ...], PlainValidator(_check_categories)]
CategoryPair = Annotated[tuple[Category, ...], PlainValidator(_check_pair)]
OneCategory = Annotated[Category, PlainValidator(_check_category)]
OneAnswer = Annotated[Category | bool, PlainValidator(_check_answer)]
Name = Annotated[str, Field(min_length=1), AfterValidator(_check_printable)]


class ColumnSection(Section):
    """What every `[[column]]` has."""

    name: Name
    mechanism: str
    epsilon: Positive

    @property
    def privacy(self) -> Privacy:
        """The guarantee of one record's cell."""
        return Privacy(self.epsilon)


# Numbers


class RealColumn(ColumnSection):
    """A column of real numbers, clamped to [lower, upper]."""

    lower: Finite
    upper: Finite
    missing: Finite | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        _check_bounds(self.lower, self.upper, self.missing)
        return self


class IntegerColumn(ColumnSection):
    """A column of integers, clamped to [lower, upper]."""

    lower: Int64
    upper: Int64
    missing: Int64 | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        _check_bounds(self.lower, self.upper, self.missing)
        return self


def _check_bounds(lower: float, upper: float, missing: float | None) -> None:
    if not lower < upper:
        raise ValueError(f"lower = {lower!r} must be less than upper = {upper!r}")
    if missing is not None and not lower <= missing <= upper:
        raise ValueError(f"missing must be in [lower, upper] = [{lower!r}, {upper!r}], got {missing!r}")


class LaplaceColumn(RealColumn):
    """`mechanism = "laplace"`: ε-DP noise on real numbers."""

    mechanism: Literal["laplace"]


class GaussianColumn(RealColumn):
    """`mechanism = "gaussian"`: (ε, δ)-DP noise on real numbers."""

    mechanism: Literal["gaussian"]
    delta: Delta

    @property
    def privacy(self) -> Privacy:
        """The guarantee of one record's cell."""
        return Privacy(self.epsilon, self.delta)


class DiscreteLaplaceColumn(IntegerColumn):
    """`mechanism = "discrete_laplace"`: ε-DP integer noise on integers."""

    mechanism: Literal["discrete_laplace"]


class DiscreteGaussianColumn(IntegerColumn):
    """`mechanism = "discrete_gaussian"`: (ε, δ)-DP integer noise on integers."""

    mechanism: Literal["discrete_gaussian"]
    delta: Delta

    @property
    def privacy(self) -> Privacy:
        """The guarantee of one record's cell."""
        return Privacy(self.epsilon, self.delta)


class BoundedMeanColumn(RealColumn):
    """`mechanism = "bounded_mean"`: one ε-DP bit about a real number, for its mean."""

    mechanism: Literal["bounded_mean"]


# Answers and categories


class BinaryColumn(ColumnSection):
    """`mechanism = "binary"`: yes/no answers, flipped at random."""

    mechanism: Literal["binary"]
    categories: CategoryPair | None = None
    missing: OneAnswer | None = None
    unknown: OneAnswer | None = None

    @model_validator(mode="after")
    def _stand_ins_are_answers(self) -> Self:
        allowed: tuple[Category | bool, ...] = (False, True, 0, 1) if self.categories is None else self.categories
        for key, value in (("missing", self.missing), ("unknown", self.unknown)):
            if value is not None and not any(value == answer and type(value) is type(answer) for answer in allowed):
                words = "false or true" if self.categories is None else " or ".join(map(repr, self.categories))
                raise ValueError(f"{key} must be {words}, got {value!r}")
        return self


class CategoricalColumn(ColumnSection):
    """A column of categories, which are declared in one of three ways."""

    categories: CategoryList | None = None
    categories_file: Name | None = None
    k: CategoryCount | None = None
    missing: OneCategory | None = None
    unknown: OneCategory | None = None

    @model_validator(mode="after")
    def _categories_are_declared_once(self) -> Self:
        declared = [key for key in ("categories", "categories_file", "k") if getattr(self, key) is not None]
        if len(declared) != 1:
            found = f"{' and '.join(declared)} were given" if declared else "none was given"
            raise ValueError(
                f'{self.mechanism} needs one of categories = [...], categories_file = "x.csv" or k = N (the codes 0 … N − 1), {found}; '
                "take them from what is known about the subject, never from the data"
            )
        for key, value in (("missing", self.missing), ("unknown", self.unknown)):
            if value is not None and self.categories_file is None:
                self._check_stand_in(key, value)
        return self

    def _check_stand_in(self, key: str, value: Category) -> None:
        if self.k is not None and not (isinstance(value, int) and 0 <= value < self.k):
            raise ValueError(f"{key} must be a code in [0, k − 1] = [0, {self.k - 1}], got {value!r}")
        if self.categories is not None and value not in self.categories:
            raise ValueError(f"{key} must be one of the categories {reprlib.repr(list(self.categories))}, got {value!r}")


class BinaryChannelColumn(CategoricalColumn):
    """`mechanism = "binary_channel"`: one ε-DP bit about a category, for the mean of phi."""

    mechanism: Literal["binary_channel"]
    phi: list[Finite]

    @model_validator(mode="after")
    def _phi_is_a_table(self) -> Self:
        k = self.k or len(self.categories or ())
        if k and len(self.phi) != k:
            raise ValueError(f"phi must have one number for each category: {len(self.phi)} for {k} categories")
        return self


class KaryColumn(CategoricalColumn):
    """`mechanism = "kary"`: the category itself or, at random, another one."""

    mechanism: Literal["kary"]


class UnaryColumn(CategoricalColumn):
    """`mechanism = "unary"`: one randomised bit for each category."""

    mechanism: Literal["unary"]
    variant: Literal["optimal", "symmetric"] = "optimal"


class SubsetColumn(CategoricalColumn):
    """`mechanism = "subset"`: a random subset of the categories that favours the true one."""

    mechanism: Literal["subset"]


class HashingColumn(CategoricalColumn):
    """`mechanism = "hashing"`: a random hash of the category, randomised."""

    mechanism: Literal["hashing"]


class HadamardColumn(CategoricalColumn):
    """`mechanism = "hadamard"`: one randomised entry of the Hadamard matrix."""

    mechanism: Literal["hadamard"]


JobColumn = (
    LaplaceColumn
    | GaussianColumn
    | DiscreteLaplaceColumn
    | DiscreteGaussianColumn
    | BoundedMeanColumn
    | BinaryColumn
    | BinaryChannelColumn
    | KaryColumn
    | UnaryColumn
    | SubsetColumn
    | HashingColumn
    | HadamardColumn
)
COLUMN_SECTIONS: dict[str, type[JobColumn]] = {
    "laplace": LaplaceColumn,
    "gaussian": GaussianColumn,
    "discrete_laplace": DiscreteLaplaceColumn,
    "discrete_gaussian": DiscreteGaussianColumn,
    "bounded_mean": BoundedMeanColumn,
    "binary": BinaryColumn,
    "binary_channel": BinaryChannelColumn,
    "kary": KaryColumn,
    "unary": UnaryColumn,
    "subset": SubsetColumn,
    "hashing": HashingColumn,
    "hadamard": HadamardColumn,
}
