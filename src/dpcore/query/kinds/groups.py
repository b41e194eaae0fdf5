"""`groups`: the keys of groups that only the data know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import model_validator

from dpcore.pages.numbers import plain_number
from dpcore.query.fields import DeltaShare
from dpcore.query.group_fields import PRIVATE, GroupBy
from dpcore.query.kinds.base import Kind
from dpcore.query.private_groups import KeysEstimator
from dpcore.query.prose import as_list, key_names
from dpcore.query.query_sections import QuerySection

if TYPE_CHECKING:
    from dpcore.query.estimators import Estimator
    from dpcore.query.group_fields import GroupsDeclared
    from dpcore.query.kinds.base import Columns, Entry, QueryContext


class GroupsQuery(QuerySection):
    """`kind = "groups"`: the keys of groups that only the data know, for the queries whose groups are "private"."""

    kind: Literal["groups"]
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
        return

    @property
    def grouping(self) -> tuple[tuple[str, ...], GroupsDeclared]:
        return ((self.group_by,) if isinstance(self.group_by, str) else self.group_by), PRIVATE

    @property
    def selects_groups(self) -> bool:
        return True


class Groups(Kind):
    """Keys, by how many units have each."""

    names, fields = ("groups",), (GroupsQuery,)
    has_labels = True
    names_groups = True

    def columns(self, position: int, query: GroupsQuery) -> Columns:  # noqa: ARG002
        return ()

    def estimator(self, query: GroupsQuery, asked: QueryContext) -> Estimator:
        """A selection that is calibrated for the groups that one unit touches."""
        grouping: Any = asked.read.groups
        return KeysEstimator.calibrate(query, grouping, asked.bound, asked.relation)

    def question(self, query: Entry) -> str:
        at = plain_number(query["half_released_at"])
        values = " and ".join(as_list(query["group_by"], 1))
        return f"Which values of {values} there are; one that {at} units have is named with probability ½ or more"

    def cut(self, query: Entry) -> str:  # noqa: ARG002
        return "one with more is missing from some groups, so fewer groups may be named"

    def caveats(self, query: Entry) -> list[str]:  # noqa: ARG002
        return ["In the order of their names, not of their sizes. Other values can be in the data: too few have them."]

    def numbered(self, query: Entry) -> Entry:
        return {**query, "value": key_names(query)}

    def keys(self, query: Entry) -> dict[str, list[Any]]:
        return {"group": list(query["value"])}

    def heads(self, query: Entry) -> list[str]:
        return [f"group {place}" for place in range(1, len(query["value"]) + 1)]
