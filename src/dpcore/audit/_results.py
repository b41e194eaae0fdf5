"""The result of an audit, in numbers and in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dpcore._dataclasses import dataclass
from dpcore._html import escaped, rows_table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PLACES = {"values": "values", "low_bits": "low bits", "own": "statistics of your functions"}
LIMITS = "This is not a proof that the mechanism is private: an audit sees only two inputs and the events that it counts."


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An event that an audit has counted: the best one of the values, of the low bits, or of your own functions.

    Attributes
    ----------
    where : {"values", "low_bits", "own"}
        Where the event was found.
    event : str
        The event in words.
    likelier : {"x0", "x1"}
        The input under which the event is more probable.
    counts : tuple of int
        Number of runs with the event, on x0 and on x1.
    epsilon_lower : float
        Lower bound of ε from this event; 0 if it proves nothing.
    """

    where: str
    event: str
    likelier: str
    counts: tuple[int, int]
    epsilon_lower: float


@dataclass(frozen=True, slots=True, eq=False)
class AuditResult:
    """The result of an audit. `print` it, or show it in a notebook, to read it in words.

    Attributes
    ----------
    epsilon_lower : float
        With probability at least `confidence`, the mechanism is not (ε, δ)-private on the two inputs for any smaller ε. 0 if no event
        proves a loss.
    epsilon_claimed : float or None
        The claimed ε; None without a claim, or if the claim is for a larger δ.
    delta : float
        Failure mass δ.
    event : str
        The event that proves the bound, in words.
    likelier : {"x0", "x1"}
        The input under which the event is more probable.
    counts : tuple of int
        Number of runs with the event, among `counted` runs on x0 and among `counted` runs on x1.
    counted : int
        Number of runs on each input in the second half, which counts the events.
    runs : int
        Number of runs on each input.
    confidence : float
        Probability with which the bound is correct.
    places : tuple of AuditEvent
        The best counted event of the values, of the low bits and of your own functions, as far as one was counted.
    searched : tuple of {"values", "low_bits", "own"}
        Where the audit searched. A place without an event in `places` had none whose expected bound was as large as that of the counted
        events.
    contains : callable
        Takes outputs and returns for each whether it is in the event.
    """

    epsilon_lower: float
    epsilon_claimed: float | None
    delta: float
    event: str
    likelier: str
    counts: tuple[int, int]
    counted: int
    runs: int
    confidence: float
    places: tuple[AuditEvent, ...] = field(repr=False)
    searched: tuple[str, ...] = field(repr=False)
    contains: Callable[[Any], npt.NDArray[np.bool_]] = field(repr=False)

    @property
    def refuted(self) -> bool | None:
        """Whether the claim is refuted at the stated confidence; None without a claim. False is not a proof of privacy."""
        return None if self.epsilon_claimed is None else self.epsilon_lower > self.epsilon_claimed

    def __str__(self) -> str:
        return "\n".join([self._verdict(), *self._evidence(), *self._apart()])

    def _repr_html_(self) -> str:
        verdict, *rest = (escaped(line) for line in [self._verdict(), *self._evidence()])
        found = {place.where: place for place in self.places}
        rows = (self._row(where, found.get(where)) for where in self.searched)
        heads = ["where", "event", "runs on x0", "runs on x1", "ε at least"]
        text = "".join(f"<p>{line}</p>" for line in rest)
        table = rows_table("The event found in each place", heads, rows, len(self.searched))
        return f"<div><p><strong>{verdict}</strong></p>{text}{table}</div>"

    def _row(self, where: str, place: AuditEvent | None) -> list[str]:
        name = PLACES[where].capitalize()
        if place is None:
            return [name, "no event promised more than those counted", "–", "–", "–"]
        return [name, place.event, *(_share(count, self.counted) for count in place.counts), f"{place.epsilon_lower:.4f}"]

    def _verdict(self) -> str:
        claim = f"The claim ε = {self.epsilon_claimed:g}, δ = {self.delta:g}" if self.epsilon_claimed is not None else ""
        if self.refuted is None:
            return f"No claim at δ = {self.delta:g}, so nothing is refuted."
        if self.refuted:
            return f"{claim} is refuted, with confidence {self.confidence:.10g}."
        return f"{claim} is not refuted. {LIMITS}"

    def _evidence(self) -> list[str]:
        """Return a sentence about the event, its frequencies, and the bound that they prove."""
        if self.epsilon_lower <= 0:
            return [f"No event separates the inputs: {self.runs:,} runs on each input prove no loss above ε = 0."]
        first, second = (_share(count, self.counted) for count in self.counts)
        return [
            f"Event{self._where()}: {self.event}.",
            f"It occurred in {first} of {self.counted:,} runs on x0, and in {second} of {self.counted:,} runs on x1.",
            f"So at δ = {self.delta:g} the ε of the mechanism is at least {self.epsilon_lower:.4f}, "
            f"with confidence {self.confidence:.10g}.",
        ]

    def _where(self) -> str:
        return "".join(f" in the {PLACES[place.where]}" for place in self.places if place.event == self.event and len(self.searched) > 1)

    def _apart(self) -> list[str]:
        """The other places that the audit searched, one on each line."""
        found = {place.where: place for place in self.places if place.event != self.event or self.epsilon_lower <= 0}
        others = [where for where in self.searched if where in found or where not in {place.where for place in self.places}]
        return [f"{PLACES[where].capitalize()}: {_place(found.get(where))}" for where in others] if len(self.searched) > 1 else []


def _place(place: AuditEvent | None) -> str:
    if place is None:
        return "no event promised more than those counted."
    return f"{place.event}; this proves ε ≥ {place.epsilon_lower:.4f}."


def _share(count: int, counted: int) -> str:
    return f"{count:,} ({count / counted:.3%})"
