"""Rows of a report: a ratio, what it was measured against, and what it should be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

HEADINGS = ("ours", "against", "level", "threads", "ns", "other", "ratio", "target", "")


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes
    ----------
    ours, against : str
        What was timed, and the peer or bound beside it.
    level : str
        CPU level.
    threads : int
        Threads of ours.
    ours_ns, other_ns : float
        Nanoseconds a value.
    ratio : float
        Peer ÷ ours, or ours ÷ bound if `bound`.
    target : float or None
        What the ratio should reach, or stay below if `bound`; None where nothing was asked.
    bound : bool
        Whether smaller is better.
    required : bool
        False for goals.
    """

    ours: str
    against: str
    level: str
    threads: int
    ours_ns: float
    other_ns: float
    ratio: float
    target: float | None = None
    bound: bool = False
    required: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.ratio <= self.target if self.bound else self.ratio >= self.target

    def cells(self) -> tuple[str, ...]:
        """The row as text."""
        sign = "≤" if self.bound else "≥"
        target = "" if self.target is None else f"{sign} {self.target:g}" + ("" if self.required else " goal")
        verdict = {None: "", True: "met", False: "not met"}[self.met]
        numbers = f"{self.ours_ns:.2f}", f"{self.other_ns:.2f}", f"{self.ratio:.2f}"
        return (self.ours, self.against, self.level, str(self.threads), *numbers, target, verdict)


def as_text(rows: Sequence[Row]) -> str:
    """A table of columns wide enough for their text."""
    cells = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    numeric = {3, 4, 5, 6}
    return "\n".join(
        "  ".join(text.rjust(w) if i in numeric else text.ljust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    )


def as_json(rows: Sequence[Row], machine: dict[str, object]) -> str:
    """The rows and the machine they were measured on."""
    return json.dumps({"format": 1, "machine": machine, "rows": [asdict(row) | {"met": row.met} for row in rows]}, indent=1)
