"""Keys of queries that look at whole units: what may be given together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import model_validator

from dpcore.batch.jobfile.fields import CategoryCount, Name, Positive, Section
from dpcore.batch.jobfile.sections import RowCount
from dpcore.batch.release.query_fields import MAX_CELLS, Listed


class DistinctKeys(Section):
    """Those of `count_distinct`: of units, or of the values of a column."""

    column: Name | None = None
    categories: Listed | None = None
    categories_file: Name | None = None
    k: CategoryCount | None = None
    max_values_per_unit: RowCount | None = None

    @model_validator(mode="after")
    def _values_are_of_a_column(self) -> Self:
        keys = ("categories", "categories_file", "k")
        declared = [key for key in keys if getattr(self, key) is not None]
        given = [key for key in (*keys, "max_values_per_unit") if getattr(self, key) is not None]
        if self.column is None and given:
            raise ValueError(f"{' and '.join(given)} without column: a count_distinct without a column counts units")
        if len(declared) > 1:
            raise ValueError(f"{' and '.join(declared)} were given; at most one says which values are counted")
        if self.k is not None and self.k > MAX_CELLS:
            raise ValueError(f"k must be at most {MAX_CELLS}, got {self.k}")
        return self

    def check_unit(self, unit: str) -> None:
        """Raise ValueError unless it can be asked about units of this kind."""
        if unit == "row" and self.column is None:
            raise ValueError('count_distinct without a column counts units, and with unit = "row" each row is one; write kind = "count"')
        if unit == "row" and self.max_values_per_unit not in {None, 1}:
            found = self.max_values_per_unit
            raise ValueError(f'max_values_per_unit must be 1 or left out with unit = "row": a row has one value, got {found}')
        if unit != "row" and self.column is not None and self.max_values_per_unit is None:
            raise ValueError(f"max_values_per_unit is required with unit = {unit!r}: how many values of the column one unit may add")


class SumKeys(Section):
    """Those of `sum` that bound the part of a unit."""

    max_sum_per_unit: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _bounds_follow_from_the_sum(cls, given: Any) -> Any:
        """No number counts more than the sum may."""
        if not isinstance(given, Mapping):
            return given
        most: Any = given.get("max_sum_per_unit")
        if type(most) not in {int, float} or not most > 0:
            return given
        if "bounds" in given:
            raise ValueError("bounds are not found privately for a sum with max_sum_per_unit, which bounds each unit; leave bounds out")
        return {"lower": -most, "upper": most, **given}

    def check_unit(self, unit: str) -> None:
        """Raise ValueError unless it can be asked about units of this kind."""
        if unit == "row" and self.max_sum_per_unit is not None:
            raise ValueError('max_sum_per_unit is for jobs whose unit is a column; with unit = "row" lower and upper bound each row')
