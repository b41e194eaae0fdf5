"""The objects that a ledger returns: a budget or a part of one, and one spend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dpcore._dataclasses import dataclass
from dpcore.accounting.ledger.amounts import ZERO, mu_of
from dpcore.privacy import written_down, written_up

if TYPE_CHECKING:
    from datetime import datetime

    from dpcore._disk.sealed_files import SealedFile
    from dpcore.accounting.ledger.amounts import Amount
    from dpcore.accounting.ledger.states import State
    from dpcore.privacy import Relation

Kind = Literal["basic", "zcdp", "gdp"]


@dataclass(frozen=True, slots=True, repr=False)
class Budget:
    """The limits of a ledger, or what is spent or left of them.

    Attributes
    ----------
    epsilon : float or None
        Σε of a ledger of kind "basic". None for other kinds.
    delta : float
        Σδ. For kinds "zcdp" and "gdp" this is the δ of releases that may fail, without the δ of a conversion to (ε, δ).
    rho : float or None
        Σρ of a ledger of kind "zcdp". None for other kinds.
    mu : float or None
        √(Σμ²) of a ledger of kind "gdp". None for other kinds.
    """

    epsilon: float | None
    delta: float
    rho: float | None = None
    mu: float | None = None

    def __repr__(self) -> str:
        last = f"rho={self.rho!r}" if self.mu is None else f"mu={self.mu!r}"
        return f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r}, {last})"


def budget_of(amount: Amount, kind: Kind, *, up: bool) -> Budget:
    """Return the parts of an exact amount that a ledger of this kind counts, rounded to float64."""
    rounded = written_up if up else written_down
    if kind == "gdp":
        return Budget(None, rounded(amount.delta), None, mu_of(amount.rho or ZERO, up=up))
    epsilon, rho = (None if exact is None else rounded(exact) for exact in (amount.epsilon, amount.rho))
    return Budget(epsilon, rounded(amount.delta), None) if kind == "basic" else Budget(None, rounded(amount.delta), rho)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend, as the ledger has recorded it.

    Attributes
    ----------
    id : int
        Number of the spend in its ledger, counted from 1.
    what : str
        Description that the spender gave.
    when : datetime
        When it was reserved, in UTC.
    epsilon, delta, rho : float or None
        Its cost, rounded up. None for a quantity that the ledger did not need. In a ledger of kind "gdp", ρ is μ²/2.
    job, run : str or None
        Name of the job that spent, of `dpcore release` the path of its output, and the identifier of this run of it.
    version : str
        Version of dpcore that spent.
    relation : {"replace", "add_remove"}
        Relation of neighbours that the cost refers to.
    unit : str
        Whose data the cost protects: "row", or the name of the column that identifies a person.
    dataset : str or None
        Declared name of the data set.
    secure : bool
        Always true: a ledger does not pay for noise from a test key.
    state : {"reserved", "sealed", "published", "done", "failed"}
        How far the spend has got. Every state counts in full.
    reason : str or None
        Class of the failure, for a spend that failed.
    files : tuple of SealedFile
        Outputs of the run once they are sealed, each with `temporary`, `path` and `sha256`.
    user, host : str or None
        Who spent, and on which machine, as its operating system names them. None in entries of earlier versions.
    queries : tuple of dict
        What was asked, as public parameters: of jobs and tables the `name`, `kind`, `columns`, `where`, `group_by` and `groups` of each
        query, long ones cut. Empty in entries of earlier versions.
    commitment : str or None
        Commitment to the key of its noise, for a release that can be replayed.
    """

    id: int
    what: str
    when: datetime
    epsilon: float | None
    delta: float | None
    rho: float | None
    job: str | None
    run: str | None
    version: str
    relation: Relation
    unit: str
    dataset: str | None
    secure: bool
    state: State
    reason: str | None
    files: tuple[SealedFile, ...] = ()
    user: str | None = None
    host: str | None = None
    queries: tuple[dict[str, Any], ...] = ()
    commitment: str | None = None
