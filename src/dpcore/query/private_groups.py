"""Groups that only the data know: their keys are released first, by how many units have each, and then answered for like declared groups.

docs/exactness-partitions.md proves the guarantee: the keys cost the ε and δ of their query, each answer its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore.query.estimators import Estimator
from dpcore.query.noise import Noise

if TYPE_CHECKING:
    from dpcore.privacy import Relation
    from dpcore.query.groups import Grouping
    from dpcore.query.query_sections import QuerySection
    from dpcore.query.reads import PrivateGrouping
    from dpcore.query.sensitivity import Contribution
    from dpcore.rng import Stream
    from dpcore.selection._partition_rules import PartitionRule


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys that a selection has released.

    Attributes
    ----------
    grouping : Grouping
        The groups that they are.
    is_cut : bool
        Whether more keys were released than the job takes; the first ones in order are kept.
    """

    grouping: Grouping
    is_cut: bool


@dataclass(frozen=True, slots=True)
class KeysEstimator(Estimator):
    """Which keys of a grouping may be named: an exact selection on the number of distinct units of each.

    Attributes
    ----------
    section : QuerySection
        The query.
    private : PrivateGrouping
        The groups.
    rule : PartitionRule
        The selection, for a unit in `touched` groups, or twice as many under replace.
    touched : int
        Groups that one unit belongs to at most.
    changed : int
        Numbers of units that a neighbour changes by 1, at most.
    """

    section: QuerySection
    private: PrivateGrouping
    rule: PartitionRule
    touched: int
    changed: int

    waits_for_keys = True

    @classmethod
    def calibrate(cls, section: QuerySection, grouping: PrivateGrouping, bound: Contribution, relation: Relation) -> KeysEstimator:
        """Calibrate it: a unit of m rows is in at most m groups, and in γ if the job bounds them."""
        from dpcore.selection._partition_rules import partition_rule

        touched = bound.rows if bound.groups is None else min(bound.rows, bound.groups)
        rule = partition_rule(section.epsilon, section.delta, touched, relation, "best")
        return cls(section, grouping, rule, touched, 2 * touched if relation == "replace" else touched)

    @property
    def measure(self) -> None:
        """Nothing in the pass over the rows: the keys are known before it."""
        return

    @property
    def noise(self) -> tuple[Noise, ...]:
        """The noise on the number of units of each group."""
        from dpcore.selection._partition_rules import GaussianThreshold

        if isinstance(self.rule, GaussianThreshold):
            return (Noise("gaussian", self.changed**0.5, self.rule.scale),)
        return (Noise("truncated_geometric", 1.0, self.changed / self.section.epsilon),)

    @property
    def in_place_of_error(self) -> str:
        return f"½ named at {self.rule.half:,} units"

    def parameters(self) -> dict[str, Any]:
        """The columns, and the number of units of which half of the groups are released."""
        return {"group_by": self.private.parameters()["group_by"], "half_released_at": self.rule.half}

    def release(self, total: Keys, rng: Stream | None) -> dict[str, Any]:  # noqa: ARG002
        """The keys that were released before the pass over the rows."""
        groups = total.grouping.parameters()["groups"]
        note = {"note": f"more groups were released; the first {total.grouping.size:,} in order are kept"} if total.is_cut else {}
        return {"value": groups, "stderr": None, "interval": None, **note}
