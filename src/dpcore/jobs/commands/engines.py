"""Who plans and runs the job of a command: this process, or another engine with the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from dpcore._dataclasses import dataclass

Planned = TypeVar("Planned")
Result = TypeVar("Result")


class Finished(Protocol):
    """What is known of a table that was written."""

    @property
    def rows(self) -> int | None:
        """Its rows; None where only the cluster knows them."""


@dataclass(frozen=True, slots=True)
class Engine(Generic[Planned, Result]):
    """The two steps of a command that engines do each in their own way.

    Attributes
    ----------
    name : str
        For the log.
    plan : callable
        `plan(job, overwrite=…, curator=…, others=…)` checks a job and reads schemas alone.
    run : callable
        `run(plan, threads=…, progress=…)` runs and publishes it.
    """

    name: str
    plan: Callable[..., Planned]
    run: Callable[..., Result]

    @property
    def is_local(self) -> bool:
        """Whether this process does the work. Elsewhere the rows that are done are not known meanwhile, so none are shown."""
        return self.name == "local"

    def facts(self) -> dict[str, Any]:
        """What the log of a run says about its engine: nothing of the usual one."""
        return {} if self.is_local else {"engine": self.name}
