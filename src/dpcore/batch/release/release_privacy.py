"""What a release job may spend, whose data it protects, and how tables may differ."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from dpcore.batch.jobfile.sections import PrivacySection, RowCount
from dpcore.privacy import Relation

Accounting = Literal["basic", "zcdp", "pld"]
"""How what the queries of a job spend is added up: see `composition`."""


class ReleasePrivacy(PrivacySection):
    """`[privacy]`: what the job may spend, whose data it protects, and how tables may differ."""

    relation: Relation = "replace"
    max_groups_per_unit: RowCount | None = None
    accounting: Accounting = "basic"

    @model_validator(mode="after")
    def _conversions_need_a_delta(self) -> Self:
        if self.accounting != "basic" and self.max_delta == 0:
            raise ValueError(f"max_delta is required with accounting = {self.accounting!r}, whose guarantee has a delta: for example 1e-6")
        return self

    ALWAYS_BOUNDS_ROWS: ClassVar[bool] = False

    @model_validator(mode="after")
    def _groups_are_of_a_unit(self) -> Self:
        if self.unit == "row" and self.max_groups_per_unit is not None:
            raise ValueError("max_groups_per_unit is for jobs whose unit is a column; with unit = 'row' each row is in one group")
        return self
