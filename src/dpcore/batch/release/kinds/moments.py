"""`var`, `std` and `covariance`: second moments of clamped numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dpcore.batch.release.cells import Reals
from dpcore.batch.release.found_bounds import octave_steps
from dpcore.batch.release.group_moments import MomentTallies
from dpcore.batch.release.kinds.base import NumberKind
from dpcore.batch.release.moments import MomentAnswer
from dpcore.batch.release.query_fields import SKIP
from dpcore.batch.release.reads import clamped, reals
from dpcore.pages.numbers import plain_number

if TYPE_CHECKING:
    from dpcore.batch.release.answers import Answer
    from dpcore.batch.release.group_tallies import GroupTallies
    from dpcore.batch.release.kinds.base import Columns, Entry
    from dpcore.batch.release.octaves import Octaves
    from dpcore.batch.release.queries import CovarianceQuery, SpreadQuery
    from dpcore.batch.release.sensitivity import Contribution
    from dpcore.privacy import Relation


class Spread(NumberKind):
    """A variance."""

    names: ClassVar[tuple[str, ...]] = ("var",)
    has_squares = True
    noun: ClassVar[str] = "variance"

    def columns(self, position: int, query: SpreadQuery) -> Columns:  # noqa: ARG002
        """The numbers."""
        return clamped(query)

    def each(self, query: Any, columns: Columns, bound: Contribution, relation: Relation, groups: int) -> Answer:
        """From sums and products of steps."""
        return MomentAnswer.made(query, columns, bound, relation, groups)

    def tallies(self, each: MomentAnswer) -> GroupTallies[Any]:
        """Sums and products of each group."""
        return MomentTallies(each)

    def subject(self, query: Entry) -> str:
        """The moment of the column, or of both."""
        return f"{self.noun} of {self._columns(query)}"

    def question(self, query: Entry) -> str:
        """The moment, and its divisor."""
        over = "n" if query.get("ddof") == 0 else "n − 1"
        return f"The {self.noun} of {self._columns(query)}, divided by {over}"

    def _columns(self, query: Entry) -> str:
        return str(query["column"])

    def in_bins(self, each: MomentAnswer, low: int, high: int) -> Answer:
        """In the steps in which bins are added up."""
        return each.with_steps((octave_steps(low, high),))

    def of_bins(self, each: MomentAnswer, tally: Octaves, low: int, high: int) -> Any:  # noqa: ARG002
        """The moments."""
        return tally.moments(low, high)[0]


class Deviation(Spread):
    """The root of a variance."""

    names = ("std",)
    measured = "unit_of_measure"
    noun = "standard deviation"


class Covariance(Spread):
    """The covariance of two columns, between declared bounds."""

    names = ("covariance",)
    column_key = "columns"
    noun = "covariance"

    def columns(self, position: int, query: CovarianceQuery) -> Columns:  # type: ignore[override]  # noqa: ARG002
        """The numbers of both."""
        missing = query.missing if isinstance(query.missing, tuple) else (None, None)
        bounds = zip(query.columns, query.lower, query.upper, missing, strict=True)
        return reals(query, ((name, Reals((lower, upper), stand_in)) for name, lower, upper, stand_in in bounds))

    def declared(self, query: Entry) -> str:
        """What is declared of each column."""
        said = []
        for place, name in enumerate(query["columns"]):
            lower, upper = plain_number(query["lower"][place]), plain_number(query["upper"][place])
            said.append(f"Values of {name} below {lower} count as {lower}, values above {upper} as {upper}")
            if query.get("missing") is not None:
                said[-1] += "" if query["missing"] == SKIP else f", missing ones as {plain_number(query['missing'][place])}"
        said += ["Rows in which one of them is missing are left out"] if query.get("missing") == SKIP else []
        return ". ".join(said) + "."

    def _columns(self, query: Entry) -> str:
        return " and ".join(query["columns"])
