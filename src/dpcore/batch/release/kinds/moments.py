"""`var`, `std` and `covariance`: second moments of clamped numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dpcore.batch.release.cells import Reals
from dpcore.batch.release.found_bounds import octave_steps
from dpcore.batch.release.group_moments import MomentTallies
from dpcore.batch.release.kinds.base import NumberKind
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.reads import clamped, reals

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns
    from dpcore.batch.release.octaves import Octaves
    from dpcore.batch.release.queries import CovarianceQuery, SpreadQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Spread(NumberKind):
    """A variance, or its root."""

    names: ClassVar[tuple[str, ...]] = ("var", "std")
    has_squares = True

    def columns(self, position: int, query: SpreadQuery) -> Columns:  # noqa: ARG002
        """The numbers."""
        return clamped(query)

    def each(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """From sums and products of steps."""
        return MomentAnswer.made(query, columns, bound, relation, groups)

    def tallies(self, each: MomentAnswer) -> GroupTallies[Any]:
        """Sums and products of each group."""
        return MomentTallies(each)

    def in_bins(self, each: MomentAnswer, low: int, high: int) -> Answer:
        """In the steps in which bins are added up."""
        return each.with_steps((octave_steps(low, high),))

    def of_bins(self, each: MomentAnswer, tally: Octaves, low: int, high: int) -> Any:  # noqa: ARG002
        """The moments."""
        return tally.moments(low, high)[0]


class Covariance(Spread):
    """The covariance of two columns, between declared bounds."""

    names = ("covariance",)

    def columns(self, position: int, query: CovarianceQuery) -> Columns:  # type: ignore[override]  # noqa: ARG002
        """The numbers of both."""
        missing = query.missing if isinstance(query.missing, tuple) else (None, None)
        bounds = zip(query.columns, query.lower, query.upper, missing, strict=True)
        return reals(query, ((name, Reals((lower, upper), stand_in)) for name, lower, upper, stand_in in bounds))
