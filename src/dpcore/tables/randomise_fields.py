"""The `[[column]]` tables of a job file, with the keys of each mechanism."""

from __future__ import annotations

import reprlib
from typing import Literal, Self

from pydantic import model_validator

from dpcore.privacy import Privacy
from dpcore.tables.fields import (
    SKIP,
    Category,
    CategoryCount,
    CategoryList,
    CategoryPair,
    Delta,
    Finite,
    FiniteOrSkip,
    Int64,
    Int64OrSkip,
    Name,
    OneAnswer,
    OneCategory,
    Positive,
    Section,
)


class ColumnSection(Section):
    """Keys of every `[[column]]`."""

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
    missing: FiniteOrSkip | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        _check_bounds(self.lower, self.upper, self.missing)
        return self


class IntegerColumn(ColumnSection):
    """A column of integers, clamped to [lower, upper]."""

    lower: Int64
    upper: Int64
    missing: Int64OrSkip | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        _check_bounds(self.lower, self.upper, self.missing)
        return self


def _check_bounds(lower: float, upper: float, missing: float | str | None) -> None:
    if not lower < upper:
        raise ValueError(f"lower = {lower!r} must be less than upper = {upper!r}")
    if missing is not None and not isinstance(missing, str) and not lower <= missing <= upper:
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
            if key == "missing" and value == SKIP and SKIP not in allowed:
                continue
            if value is not None and not any(value == answer and type(value) is type(answer) for answer in allowed):
                words = "false or true" if self.categories is None else " or ".join(map(repr, self.categories))
                also = f', or "{SKIP}"' if key == "missing" else ""
                raise ValueError(f"{key} must be {words}{also}, got {value!r}")
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
                f'{self.mechanism} needs one of categories = [...], categories_file = "x.csv" or k = N (the codes 0 … N − 1), {found}. '
                "Take them from what you know about the subject, never from the data"
            )
        for key, value in (("missing", self.missing), ("unknown", self.unknown)):
            if key == "missing" and value == SKIP:
                continue
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
    method: Literal["optimal", "symmetric"] = "optimal"


class SubsetColumn(CategoricalColumn):
    """`mechanism = "subset"`: a random subset of the categories that favours the true one."""

    mechanism: Literal["subset"]


class HashingColumn(CategoricalColumn):
    """`mechanism = "hashing"`: a random hash of the category, randomised."""

    mechanism: Literal["hashing"]


class HadamardColumn(CategoricalColumn):
    """`mechanism = "hadamard"`: one randomised entry of the Hadamard matrix."""

    mechanism: Literal["hadamard"]


class ProjectiveColumn(CategoricalColumn):
    """`mechanism = "projective"`: a point of a projective space that favours the category's hyperplane."""

    mechanism: Literal["projective"]


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
    | ProjectiveColumn
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
    "projective": ProjectiveColumn,
}
