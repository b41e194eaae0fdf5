"""What a run has measured: rows with their sides, and what was absent or broken."""

from __future__ import annotations

import math
import statistics
from dataclasses import field
from functools import cached_property
from typing import Any

from dpcore._dataclasses import dataclass
from dpcore.bench.bands import Ratio, ratio_of
from dpcore.bench.benchmark import Character, pip_line

OURS = "dpcore"
"""Name of our side of a row."""


@dataclass(frozen=True)
class Timed:
    """One side of a row.

    Attributes
    ----------
    name : str
        `OURS`, a peer or a bound.
    kind : str
        "ours", "peer", "bound" or "itself".
    size : int
        Units of one call.
    blocks : tuple of float or None
        Seconds of a call, undisturbed, in each block of turns; None where it took no part.
    turns, calls : int
        Number of turns in all, and calls of a turn.
    safe : bool
        Whether its numbers may be released.
    package : str
        What it needs.
    judges : bool
        Whether `compare` judges by it.
    peak_bytes : int or None
        Most memory that a call allocated through Python and NumPy, if it was measured.
    cpu_seconds : float or None
        Median of the CPU seconds of a call, all threads together, in rows of several threads.
    """

    name: str
    kind: str
    size: int
    blocks: tuple[float | None, ...]
    turns: int = 1
    calls: int = 1
    safe: bool = False
    package: str = "numpy"
    judges: bool = False
    peak_bytes: int | None = None
    cpu_seconds: float | None = None

    @cached_property
    def seconds(self) -> float:
        """Seconds of a call: the median of the blocks."""
        return statistics.median(self.known)

    @property
    def known(self) -> list[float]:
        """Seconds of the blocks in which it took part."""
        return [block for block in self.blocks if block is not None]

    @property
    def nanoseconds(self) -> float:
        """Nanoseconds of a unit."""
        return self.seconds * 1e9 / self.size


@dataclass(frozen=True)
class Row:
    """One benchmark at one CPU level.

    Attributes
    ----------
    group, name, unit : str
        As in the benchmark.
    size, threads : int
        As in the benchmark.
    level : str
        CPU level.
    character : str
        As in the benchmark.
    ours : Timed
        Our side.
    others : tuple of Timed
        The others.
    """

    group: str
    name: str
    size: int
    unit: str
    threads: int
    level: str
    character: Character
    ours: Timed
    others: tuple[Timed, ...]

    @property
    def key(self) -> str:
        """What identifies the row in every run."""
        return f"{self.group}/{self.name}/{self.size}/{self.threads}/{self.level}"

    @property
    def title(self) -> str:
        """The row in words."""
        size = "" if self.size == 1 and self.unit in {"call", "process"} else f", {self.size:,} {self.unit}{'s' if self.size > 1 else ''}"
        threads = "" if self.threads == 1 else f", {self.threads} threads"
        return f"{self.name}{size}{threads}"

    def ratio(self, other: Timed) -> Ratio | None:
        """The other's time for a unit ÷ ours, from the blocks in which both took part; above 1, ours is faster.

        Parameters
        ----------
        other : Timed
            One of `others`.
        """
        both = [(a, b) for a, b in zip(self.ours.blocks, other.blocks, strict=True) if a and b]
        scale = self.ours.size / other.size
        return ratio_of([scale * b / a for a, b in both]) if both else None

    def to_bound(self, other: Timed) -> Ratio | None:
        """Our time ÷ that of a bound.

        Parameters
        ----------
        other : Timed
            One of `others`.
        """
        found = self.ratio(other)
        return None if found is None else found.inverse

    @property
    def judge(self) -> Timed | None:
        """The side that `compare` judges by."""
        return next((other for other in self.others if other.judges), None)

    def other(self, name: str) -> Timed | None:
        """The other side of this name.

        Parameters
        ----------
        name : str
            Its name.
        """
        return next((other for other in self.others if other.name == name), None)


@dataclass(frozen=True)
class Absent:
    """A package that is not installed, and the peers that need it.

    Attributes
    ----------
    package : str
        As it is imported.
    names : tuple of str
        The peers, or our own benchmarks.
    """

    package: str
    names: tuple[str, ...]

    @property
    def pip(self) -> str:
        """The command that installs it."""
        return pip_line(self.package)


@dataclass(frozen=True)
class Broken:
    """A side that raised an error or gave a wrong answer.

    Attributes
    ----------
    row, side, why : str
        The row, the side, and the error.
    """

    row: str
    side: str
    why: str


@dataclass(frozen=True)
class Jitter:
    """How much the time of one copy varied over a run.

    Attributes
    ----------
    times : tuple of float
        Seconds of one copy of 8 MB after each block of turns of the run.
    """

    times: tuple[float, ...]

    @property
    def spread(self) -> float:
        """How much longer the copies of the ninth decile took than those of the first: 0.05 is 5 %."""
        if len(self.times) < 2:
            return math.nan
        ordered = sorted(self.times)
        return ordered[int(0.9 * (len(ordered) - 1))] / ordered[int(0.1 * (len(ordered) - 1))] - 1


Noise = Jitter
"""Its name in 0.1."""


@dataclass(frozen=True)
class Results:
    """Everything that a run has measured.

    Attributes
    ----------
    rows : tuple of Row
        What was timed.
    machine, commit : dict
        Where and what.
    mode : str
        "quick" or "full".
    noise : Jitter
        The noise of the machine.
    absent, broken : tuple
        What was not measured.
    unreached : tuple of str
        Benchmarks for which there was no time.
    interrupted : bool
        Whether the run ended early; the rows that were done are kept.
    seconds : float
        How long it took.
    made : str
        When, as ISO 8601.
    """

    rows: tuple[Row, ...]
    machine: dict[str, Any]
    commit: dict[str, Any]
    mode: str
    noise: Jitter
    absent: tuple[Absent, ...] = ()
    broken: tuple[Broken, ...] = ()
    unreached: tuple[str, ...] = ()
    interrupted: bool = False
    seconds: float = 0.0
    made: str = field(default="")
