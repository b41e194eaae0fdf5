"""`covariance`: that of two columns of clamped numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from dpcore.pages.numbers import plain_number
from dpcore.query.encoders import Clamped
from dpcore.query.fields import SKIP, TwoNames, TwoNumbers, TwoNumbersOrSkip, check_bounds
from dpcore.query.kinds.moments import DIVISOR, Spread
from dpcore.query.methods import KNOWN, Method
from dpcore.query.query_sections import GroupedQuery
from dpcore.query.reads import reals
from dpcore.tables.fields import Name

if TYPE_CHECKING:
    from dpcore.query.kinds.base import Columns, Entry
    from dpcore.query.rehearsal_columns import Seen


OF_EACH = f"Bounds of one number of each column. {KNOWN}"


class CovarianceQuery(GroupedQuery):
    """`kind = "covariance"`: that of two columns of clamped numbers."""

    kind: Literal["covariance"]
    name: Annotated[Name, Field(description="Name of the answer. Default: made of kind and columns.")]
    columns: Annotated[TwoNames, Field(description="Columns of numbers.")]
    lower: Annotated[TwoNumbers, Field(description=OF_EACH)]
    upper: Annotated[TwoNumbers, Field(description=OF_EACH)]
    missing: Annotated[
        TwoNumbersOrSkip | None,
        Field(description='Stand for missing cells; "skip" leaves such rows out. Required with a ledger.'),
    ] = None
    ddof: Annotated[Literal[0, 1], Field(description=DIVISOR)] = 1

    @property
    def is_root(self) -> bool:
        """It is none."""
        return False

    @property
    def powers(self) -> tuple[int, ...]:
        return 1, 1

    @property
    def ends_with_product(self) -> bool:
        return True

    @property
    def column(self) -> None:
        return

    @property
    def column_names(self) -> tuple[str, ...]:
        return self.columns

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        for place, name in enumerate(self.columns):
            try:
                missing = None if self.missing is None or isinstance(self.missing, str) else self.missing[place]
                check_bounds(self.lower[place], self.upper[place], missing)
            except ValueError as error:
                raise ValueError(f"column {name!r}: {error}") from None
        return self


class Covariance(Spread):
    """The covariance of two columns, between declared bounds."""

    names, fields = ("covariance",), (CovarianceQuery,)
    methods = (
        Method(
            "covariance",
            "Compute the covariance of two columns, each clamped to its bounds.",
            "The noisy covariance, for each group if there are groups.",
            ("lower", "upper", "delta", "ddof", "missing"),
        ),
    )
    column_key = "columns"
    noun = "covariance"

    def columns(self, position: int, query: CovarianceQuery) -> Columns:  # type: ignore[override]  # noqa: ARG002
        missing = query.missing if isinstance(query.missing, tuple) else (None, None)
        bounds = zip(query.columns, query.lower, query.upper, missing, strict=True)
        return reals(query, ((name, Clamped((lower, upper), stand_in)) for name, lower, upper, stand_in in bounds))

    def unclamped(self, query: CovarianceQuery, seen: Seen) -> CovarianceQuery:
        missing = query.missing if isinstance(query.missing, tuple) else (None, None)
        bounds = [seen.bounds(*each) for each in zip(query.columns, query.lower, missing, strict=True)]
        lower, upper = zip(*bounds, strict=True)
        return query.model_copy(update={"lower": lower, "upper": upper})

    def declared(self, query: Entry) -> str:
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
