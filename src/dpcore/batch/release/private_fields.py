"""Keys of the query that names the groups which only the data know."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from dpcore.batch.jobfile.fields import Section
from dpcore.batch.release.group_fields import PRIVATE, GroupBy, GroupsDeclared
from dpcore.batch.release.query_fields import DeltaShare


class PrivateKeys(Section):
    """Those of `groups`: the columns, and a δ."""

    group_by: GroupBy
    delta: DeltaShare = 0.0

    @model_validator(mode="after")
    def _delta_is_given(self) -> Self:
        if not self.delta:
            raise ValueError(
                'delta is required with kind = "groups", and must be in (0, 1), such as 1e-8: without it no key may be named that the job '
                "does not list"
            )
        return self

    @property
    def column(self) -> None:
        """It reads the columns of the groups alone."""
        return

    @property
    def grouping(self) -> tuple[tuple[str, ...], GroupsDeclared]:
        """Its columns."""
        return ((self.group_by,) if isinstance(self.group_by, str) else self.group_by), PRIVATE
