"""Keys of queries whose bounds may be found privately, for a part of ε."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import model_validator

from dpcore.batch.jobfile.fields import Positive, Section
from dpcore.batch.release.log_bins import WIDEST, log_grid


class FoundKeys(Section):
    """`bounds = "private"`, and what finding them spends."""

    bounds: Literal["private"] | None = None
    bounds_epsilon: Positive | None = None

    @classmethod
    def found_between(cls) -> dict[str, object]:
        """The keys that found bounds replace, with values that hold all bins."""
        return {"grid": log_grid()} if "grid" in cls.model_fields else {"lower": WIDEST[0], "upper": WIDEST[1]}

    @model_validator(mode="before")
    @classmethod
    def _bounds_are_found_or_declared(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or given.get("bounds") != "private":
            return given
        if declared := [key for key in cls.found_between() if key in given]:
            raise ValueError(f'bounds = "private" finds them; leave {" and ".join(declared)} out')
        return {**given, **cls.found_between()}

    @model_validator(mode="after")
    def _bounds_and_their_epsilon_belong_together(self) -> Self:
        if (self.bounds is None) != (self.bounds_epsilon is None):
            given = "bounds was given" if self.bounds_epsilon is None else "bounds_epsilon was given"
            raise ValueError(
                f'bounds = "private" and bounds_epsilon, the part of epsilon that finding them spends, belong together; only {given}'
            )
        return self

    def check_found(self, epsilon: float, weight: float | None) -> None:
        """Raise ValueError unless bounds leave something of ε, which has to be given."""
        if self.bounds_epsilon is not None and weight is not None:
            raise ValueError(
                'bounds_epsilon is a part of the query\'s epsilon; give epsilon in place of weight with bounds = "private", got '
                f"weight = {weight!r}"
            )
        if self.bounds_epsilon is not None and not self.bounds_epsilon < epsilon:
            raise ValueError(f"bounds_epsilon must be less than epsilon = {epsilon!r}, its whole, got {self.bounds_epsilon!r}")
