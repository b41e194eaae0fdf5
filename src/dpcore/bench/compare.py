"""Two runs beside each other: which rows became slower or faster, judged on ratios to a bound of the same run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from dpcore._dataclasses import dataclass
from dpcore.bench.bands import WIDEST, Ratio
from dpcore.bench.machine import identity
from dpcore.bench.results import Results, Row
from dpcore.errors import JobError

Outcome = Literal["slower", "faster", "no change", "too noisy"]
OUTCOMES: tuple[Outcome, ...] = ("slower", "faster", "no change", "too noisy")
BANDS: Mapping[str, float] = {"call": 0.10, "cache": 0.10, "compute": 0.30, "memory": 0.30, "whole": 0.30}
"""How far the ratio to the bound may move without being a change, by what the time depends on. Two processes place code and data
differently in the cache, and share the memory with other programs, so that ratios move although nothing was changed."""
CHARACTERS = {
    "call": "calls on few values",
    "cache": "work in the cache",
    "compute": "work on several threads",
    "memory": "work on large arrays",
    "whole": "whole programs and jobs",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A row that both runs have.

    Attributes
    ----------
    row : Row
        The row of the second run.
    bound : str
        What both are judged by.
    before, after : Ratio
        Our time ÷ that of the bound.
    """

    row: Row
    bound: str
    before: Ratio
    after: Ratio

    @property
    def factor(self) -> float:
        """After ÷ before: above 1, the second run is slower."""
        return self.after.value / self.before.value

    @property
    def allowed(self) -> float:
        """How far the factor may be from 1."""
        return BANDS[self.row.character]

    @property
    def outcome(self) -> Outcome:
        """A change is one that is larger than allowed, and whose bands do not meet."""
        if any(ratio.blocks < 2 or ratio.high > WIDEST * ratio.low for ratio in (self.before, self.after)):
            return "too noisy"
        if self.factor > 1 + self.allowed and self.after.low > self.before.high:
            return "slower"
        if self.factor < 1 / (1 + self.allowed) and self.after.high < self.before.low:
            return "faster"
        return "no change"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs have in common.

    Attributes
    ----------
    changes : tuple of Change
        One for each row that both have, beside the same bound.
    only_before, only_after : tuple of str
        Titles of rows that one run has.
    unjudged : tuple of str
        Titles of rows without a bound.
    machines : dict
        What the machines differ in: from a name to the two values. Empty for one machine.
    interrupted : bool
        Whether one of the runs was interrupted.
    """

    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    unjudged: tuple[str, ...]
    machines: dict[str, tuple[Any, Any]]
    interrupted: bool

    def with_outcome(self, outcome: Outcome) -> list[Change]:
        """The changes of one outcome, the largest first.

        Parameters
        ----------
        outcome : {"slower", "faster", "no change", "too noisy"}
            Which.
        """
        found = [change for change in self.changes if change.outcome == outcome]
        return sorted(found, key=lambda change: max(change.factor, 1 / change.factor), reverse=True)

    @property
    def is_slower(self) -> bool:
        """Whether a row became slower."""
        return bool(self.with_outcome("slower"))


def compare(before: Results, after: Results) -> Comparison:
    """Compare two runs.

    Parameters
    ----------
    before, after : Results
        The runs. They may be of different machines: only ratios to bounds are compared in any case.

    Returns
    -------
    Comparison
        The rows that both have.

    Raises
    ------
    JobError
        If they have no row in common that has a bound.
    """
    earlier, later = ({row.key: row for row in results.rows} for results in (before, after))
    both = [(earlier[key], row) for key, row in later.items() if key in earlier]
    changes = [change for pair in both if (change := _change(*pair)) is not None]
    if not changes:
        raise JobError("the two files have no row in common that is timed beside a bound; compare runs of the same groups and size")
    judged = {change.row.key for change in changes}
    return Comparison(
        changes=tuple(changes),
        only_before=tuple(row.title for key, row in earlier.items() if key not in later),
        only_after=tuple(row.title for key, row in later.items() if key not in earlier),
        unjudged=tuple(row.title for _, row in both if row.key not in judged),
        machines=_differences(before.machine, after.machine),
        interrupted=before.interrupted or after.interrupted,
    )


def _change(before: Row, after: Row) -> Change | None:
    judge = after.judge
    former = None if judge is None else before.other(judge.name)
    if judge is None or former is None:
        return None
    one, other = before.to_bound(former), after.to_bound(judge)
    return None if one is None or other is None else Change(after, judge.name, one, other)


def _differences(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    one, other = identity(before), identity(after)
    return {name: (one[name], other[name]) for name in one if one[name] != other[name]}


def document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as JSON.

    Parameters
    ----------
    comparison : Comparison
        What to write.
    """
    return {
        "format": 1,
        "slower": comparison.is_slower,
        "same_machine": not comparison.machines,
        "machines": {name: list(values) for name, values in comparison.machines.items()},
        "interrupted": comparison.interrupted,
        "bands": dict(BANDS),
        "rows": [
            {
                "benchmark": change.row.title, "group": change.row.group, "level": change.row.level, "bound": change.bound,
                "before": change.before.value, "before_band": [change.before.low, change.before.high], "after": change.after.value,
                "after_band": [change.after.low, change.after.high], "factor": change.factor, "allowed": change.allowed,
                "outcome": change.outcome,
            }
            for change in comparison.changes
        ],
        "only_before": list(comparison.only_before),
        "only_after": list(comparison.only_after),
        "unjudged": list(comparison.unjudged),
    }  # fmt: skip
