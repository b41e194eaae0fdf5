"""`groups`: the keys of groups that only the data know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.batch.release.kinds.base import Kind
from dpcore.batch.release.private_groups import KeysAnswer

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.kinds.base import Asked, Columns
    from dpcore.batch.release.queries import GroupsQuery


class Groups(Kind):
    """Keys, by how many units have each."""

    names = ("groups",)

    def columns(self, position: int, query: GroupsQuery) -> Columns:  # noqa: ARG002
        """None but those of the groups."""
        return ()

    def answer(self, query: GroupsQuery, asked: Asked) -> Answer:
        """A selection that is calibrated for the groups that one unit touches."""
        grouping: Any = asked.read.groups
        return KeysAnswer.made(query, grouping, asked.bound, asked.relation)
