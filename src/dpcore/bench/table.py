"""Rows of a report: ratios to peers or bounds, and their limits."""

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
        The timed function, and the peer or bound.
    level : str
        CPU level of the kernels.
    threads : int
        Number of threads of dpcore.
    ours_ns, other_ns : float
        Nanoseconds for each value.
    ratio : float
        Peer ÷ ours, or ours ÷ bound if `bound`.
    target : float or None
        Least ratio, or largest ratio if `bound`; None without a limit.
    bound : bool
        Whether a smaller ratio is better.
    required : bool
        Whether the target is required.
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
        """Return the row as text.

        Returns
        -------
        tuple of str
            One cell for each heading.
        """
        sign = "≤" if self.bound else "≥"
        target = "" if self.target is None else f"{sign} {self.target:g}" + ("" if self.required else " goal")
        verdict = {None: "", True: "met", False: "not met"}[self.met]
        numbers = f"{self.ours_ns:.2f}", f"{self.other_ns:.2f}", f"{self.ratio:.2f}"
        return (self.ours, self.against, self.level, str(self.threads), *numbers, target, verdict)


def as_text(rows: Sequence[Row]) -> str:
    """Return rows as a table for a terminal.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the table.

    Returns
    -------
    str
        A line of headings, and a line for each row.

    Raises
    ------
    AttributeError
        If an element is not a `Row`.

    Notes
    -----
    Cost: some microseconds for each row.

    Examples
    --------
    >>> from dpcore.bench import Row, as_text
    >>> print(as_text([Row("laplace", "a copy", "x86_v3", 1, 3.0, 1.0, 3.0, target=4.0, bound=True)]))
    ours     against  level   threads    ns  other  ratio  target
    laplace  a copy   x86_v3        1  3.00   1.00   3.00  ≤ 4     met
    """
    cells = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    numeric = {3, 4, 5, 6}
    return "\n".join(
        "  ".join(text.rjust(w) if i in numeric else text.ljust(w) for i, (text, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    )


def as_json(rows: Sequence[Row], machine: dict[str, object]) -> str:
    """Return rows as JSON, with a description of the machine.

    Parameters
    ----------
    rows : sequence of Row
        Rows of the report.
    machine : dict
        The machine that measured them.

    Returns
    -------
    str
        `{format, machine, rows}`.

    Raises
    ------
    TypeError
        If `machine` has a value that JSON does not know.

    Notes
    -----
    Cost: some microseconds for each row.

    Examples
    --------
    >>> import json
    >>> from dpcore.bench import Row, as_json
    >>> json.loads(as_json([Row("laplace", "a copy", "x86_v3", 1, 3.0, 1.0, 3.0)], {"cores": 2}))["rows"][0]["ours"]
    'laplace'
    """
    return json.dumps({"format": 1, "machine": machine, "rows": [asdict(row) | {"met": row.met} for row in rows]}, indent=1)
