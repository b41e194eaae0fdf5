"""`Ledger`: a budget in a file, which several processes may spend from and none can overspend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.accounting.ledger.reservation import Reservation
from dpcore.accounting.ledger.spends import Budget, Entry, Kind, budget_of
from dpcore.errors import ParameterError
from dpcore.privacy import Privacy, Relation

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from dpcore.accounting.ledger.costs import Spend


class Ledger:
    r"""A budget kept in an SQLite file. No sequence of spends exceeds it, even if each spend depends on earlier answers.

    `Ledger(path)` opens a ledger that exists. `Ledger.create` makes one.

    Parameters
    ----------
    path : str or path
        The file. Symbolic links are resolved once, here.
    timeout : float, default 30.0
        Seconds to wait for other processes, in [0, 3600].

    Attributes
    ----------
    path : Path
        The file itself, absolute.
    kind : {"basic", "zcdp", "gdp"}
        What adds up: ε and δ; or ρ, or μ², and the δ of releases that may fail.
    budget : Budget
        The limits, fixed when the ledger was made.
    relation : {"replace", "add_remove"}
        Relation of neighbours that all spends refer to.
    unit : str
        Whose data the budget protects.
    dataset : str or None
        Declared name of the data set. None for a ledger of several data sets.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ParameterError, ParameterTypeError
        If the file is not a ledger, or has another format, or an argument is wrong.
    OSError
        If the file cannot be read or is damaged; among them PermissionError, IsADirectoryError and TimeoutError.

    Notes
    -----
    `spend` reserves an amount in a separate transaction, which is on disk before it returns. Later transactions record what became of it.
    A process that dies in between leaves its reservation, which stays spent; nothing is ever given back. The lock under which the totals
    are read is the lock under which the reservation is written, so two processes cannot both take what is left.

    Guarantee: everything that was paid for is together (ε₀, δ₀)-private for kind "basic", δ₀-approximate ρ₀-zCDP for kind "zcdp", and
    μ₀-GDP but for failures of δ₀ for kind "gdp". `privacy` converts the last two to an ε for every δ > δ₀. All hold for amounts that were
    chosen after seeing earlier answers. Totals are exact: amounts are added as the decimal numbers that they are written as, so that
    0.1 + 0.2 fits into 0.3.

    Cost: about 10 ms for each spend on a local disk, for the syncs.

    Source: Rogers et al. (2016) for "basic"; Whitehouse et al. (2023), Theorem 1 and Feldman & Zrnic (2021), Theorem 3.1 for "zcdp"; Smith
    & Thakurta (2022) for "gdp". The proof is in docs/accounting.md, "What a ledger promises".

    The file must be on a local file system, or on one whose locks work. SQLite's rollback journal is used, and every commit is synced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> ledger = Ledger.create(f"{folder.name}/survey.ledger", epsilon=1.0, delta=1e-6)
    >>> with ledger.spend(Privacy(0.75), what="income histogram"):
    ...     pass  # draw the noise here
    >>> ledger.remaining
    Budget(epsilon=0.25, delta=1e-06, rho=None)
    >>> ledger.spend(Privacy(0.5), what="age histogram")
    Traceback (most recent call last):
        ...
    dpcore.errors.BudgetError: 'age histogram' needs epsilon 0.5, delta 0.0; the ledger has epsilon 0.25, delta 1e-06 left
    >>> [(entry.what, entry.epsilon, entry.state) for entry in ledger.entries()]
    [('income histogram', 0.75, 'done')]
    >>> folder.cleanup()
    """

    path: Path
    kind: Kind
    budget: Budget
    relation: Relation
    unit: str
    dataset: str | None

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        from dpcore.accounting.ledger.creation import check_timeout
        from dpcore.accounting.ledger.database import resolve
        from dpcore.accounting.ledger.opened import OpenLedger

        self._opened = OpenLedger(resolve(path), check_timeout(timeout))
        header = self._opened.header
        self.path, self.kind, self.relation = self._opened.path, header.kind, header.relation
        self.unit, self.dataset = header.unit, header.dataset
        self.budget = budget_of(header.budget, header.kind, up=False)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        rho: float | None = None,
        mu: float | None = None,
        failure_delta: float = 0.0,
        relation: Relation = "replace",
        unit: str = "row",
        dataset: str | None = None,
        timeout: float = 30.0,
    ) -> Ledger:
        r"""Make a new ledger. Its budget, relation, unit and data set cannot be changed afterwards.

        Parameters
        ----------
        path : str or path
            A file that does not exist, in a folder that does.
        epsilon, delta : float
            Budget of a ledger of kind "basic": limits of Σε in [0, ∞) and of Σδ in [0, 1).
        rho, failure_delta : float
            Budget of a ledger of kind "zcdp": limits of Σρ in [0, ∞) and of Σδ of the releases that may fail, in [0, 1). Use it instead of
            `epsilon` and `delta`. `zcdp_rho` returns the ρ for an (ε, δ).
        mu : float
            Budget of a ledger of kind "gdp", with `failure_delta`: limit of √(Σμ²), in [0, ∞). `gdp_mu` returns the μ for an (ε, δ).
        relation : {"replace", "add_remove"}, default "replace"
            Relation of neighbours. Spends for another relation are refused.
        unit : str, default "row"
            Whose data the budget protects: "row", or the name of the column that identifies a person. Spends for another unit are refused,
            because an ε per row and an ε per person do not add up.
        dataset : str, optional
            Declared name of the data set. Spends for another data set are refused. The default is a ledger for several data sets.
        timeout : float, default 30.0
            Seconds to wait for other processes, in [0, 3600].

        Returns
        -------
        Ledger
            The new ledger, on disk. A limit that float64 does not represent is rounded down.

        Raises
        ------
        FileExistsError
            If the file exists, or a file with the name of its journal.
        ParameterError, ParameterTypeError
            If not one of ε, ρ and μ is given, or an argument is wrong.
        OSError
            If the folder does not exist or cannot be written.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Ledger.create(f"{folder}/survey.ledger", epsilon=1, delta=1e-6, unit="person", dataset="survey-2026").budget
        Budget(epsilon=1.0, delta=1e-06, rho=None)
        """
        from dpcore.accounting.ledger.creation import make

        limits = {"epsilon": epsilon, "delta": delta, "rho": rho, "failure_delta": failure_delta, "mu": mu}
        where = make(path, limits, relation=relation, unit=unit, dataset=dataset, timeout=timeout)
        return cls(where, timeout=timeout)

    # Spending: `decision.grant` decides.

    def spend(
        self,
        amount: Spend,
        *,
        what: str,
        job: str | None = None,
        run: str | None = None,
        relation: Relation | None = None,
        unit: str | None = None,
        dataset: str | None = None,
        secure: bool = True,
        queries: Sequence[Mapping[str, Any]] = (),
        series: str | None = None,
        commitment: str | None = None,
    ) -> Reservation:
        r"""Reserve a part of the budget, or refuse. Draw the noise afterwards.

        Runs that other processes had sealed before they died are published first, as `complete` does.

        Parameters
        ----------
        amount : Privacy, Uses, GaussianPrivacy, float, or a sequence of these
            What the release costs. A float is a ρ and is for kind "zcdp" only. In such a ledger an (ε, δ)-private release costs `rho_pure`
            of its ε (at most ε²/2) and its δ, and `Uses` cost the ρ of their mechanism. Kind "gdp" takes Gaussian noise (`GaussianPrivacy`
            or `Uses`) by its μ², and all else by `mu_pure` of its ε and its δ; what has only a ρ is refused. The parts are added.
        what : str
            Description of the release. Everyone who can read the ledger can read it.
        job, run : str, optional
            Name of the job that spends, and an identifier of this run of it; see `find`.
        relation, unit, dataset : str, optional
            What the release refers to. A value that differs from the ledger's own is refused. Default: the ledger's own.
        secure : bool, default True
            Whether the noise comes from the operating system's randomness. False is refused, because noise from a test key protects nobody.
        queries : sequence of mapping, optional
            What is asked, as public parameters that JSON can hold, at most 256 KiB in all. Everyone who can read the ledger can read it, so
            put nothing of the data there.
        series : str, optional
            Identifier of a series of releases for which `amount` pays as a whole. The first spend that names it pays; later ones cost
            nothing. See `note_step`.
        commitment : str, optional
            Commitment to the key of the noise, with `run`. One that an entry has is refused, unless the same run had it and died.

        Returns
        -------
        Reservation
            The spend, on disk. Use it as a context manager around the release, or call its `done` afterwards.

        Raises
        ------
        BudgetError
            If the amount does not fit into what is left. Nothing is written.
        ParameterError, ParameterTypeError
            If an argument is wrong or does not agree with the ledger.
        OSError
            If the file cannot be read or written.
        """
        from dpcore.accounting.ledger.costs import cost_of
        from dpcore.accounting.ledger.creation import check_optional, check_queries, check_text
        from dpcore.accounting.ledger.decision import Request, grant

        cost = cost_of(amount, self.kind, self.relation)
        check_text("what", what)
        for name, text in (("job", job), ("run", run), ("dataset", dataset), ("series", series), ("commitment", commitment)):
            check_optional(name, text)
        asked = check_queries(queries)
        number = grant(self._opened, Request(cost, what, job, run, relation, unit, dataset, secure, asked, series, commitment))
        return Reservation(number, self._opened.advance)

    def cost(self, amount: Spend) -> Budget:
        """Compute what a spend would take from the budget, without spending.

        Parameters
        ----------
        amount : Privacy, Uses, GaussianPrivacy, float, or a sequence of these
            As in `spend`.

        Returns
        -------
        Budget
            The cost, rounded up.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the amount is not valid for this ledger.
        """
        from dpcore.accounting.ledger.costs import cost_of

        return budget_of(cost_of(amount, self.kind, self.relation), self.kind, up=True)

    def fits(self, amount: Spend) -> bool:
        """Return whether a spend would be granted now, without spending.

        Parameters
        ----------
        amount : Privacy, Uses, GaussianPrivacy, float, or a sequence of these
            As in `spend`.

        Returns
        -------
        bool
            Whether the amount is within what is left. Another process may spend it before you do.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the amount is not valid for this ledger.
        OSError
            If the file cannot be read.
        """
        from dpcore.accounting.ledger import decision
        from dpcore.accounting.ledger.costs import cost_of

        wanted = cost_of(amount, self.kind, self.relation)
        return decision.fits(self._opened.total() + wanted, self._opened.header.budget, self.kind)

    # What was spent

    @property
    def spent(self) -> Budget:
        """The cost of all spends together, in any state, rounded up."""
        return budget_of(self._opened.total(), self.kind, up=True)

    @property
    def remaining(self) -> Budget:
        """The largest single spend that still fits, rounded down."""
        from dpcore.accounting.ledger import decision

        left = decision.rest(self._opened.total(), self._opened.header.budget)
        return budget_of(left, self.kind, up=False)

    def privacy(self, delta: float | None = None) -> Privacy:
        r"""Return the guarantee of everything that this ledger ever pays for, together.

        Parameters
        ----------
        delta : float, optional
            δ of the guarantee, for kinds "zcdp" and "gdp" only and required there. It includes `budget.delta`, so it lies in
            (`budget.delta`, 1).

        Returns
        -------
        Privacy
            The guarantee that follows from the budget. It does not depend on the spends so far: where amounts depend on earlier answers,
            an ε for the spends so far would not be a guarantee.

        Raises
        ------
        ParameterError, ParameterTypeError
            If δ is outside (`budget.delta`, 1), is missing for these kinds, or is given for kind "basic".
        """
        from dpcore.accounting.ledger import promises

        return promises.promise(self._opened.header, delta)

    def entries(self) -> Iterator[Entry]:
        """Return all spends in the order in which they were made.

        Returns
        -------
        iterator of Entry
            The spends at the time of the call. Later spends do not appear.

        Raises
        ------
        OSError
            If the file cannot be read or is damaged.
        """
        return iter(self._opened.entries())

    def find(self, run: str, *others: str) -> Entry | None:
        """Find the newest spend of a run that has not failed.

        Parameters
        ----------
        run : str
            Identifier of the run, as in `spend`.
        *others : str
            Further identifiers of the same run, such as those that it had in earlier versions of a program.

        Returns
        -------
        Entry or None
            If its state is "published" or "done", the outputs are in place, and the run need not be repeated or paid for again.

        Raises
        ------
        ParameterError, ParameterTypeError
            If an identifier is not a text, or is empty.
        OSError
            If the file cannot be read or is damaged.
        """
        from dpcore.accounting.ledger.creation import check_text

        runs = {run, *others}
        for each in runs:
            check_text("run", each)
        found = self._opened.entries(lambda entry: entry.run in runs and entry.state != "failed")
        return found[-1] if found else None

    # Series of releases that are paid for once

    def last_step(self, series: str) -> tuple[int, str] | None:
        """Return how far a series of releases has come.

        Parameters
        ----------
        series : str
            Identifier of the series, as in `spend`.

        Returns
        -------
        tuple of (int, str), or None
            The number of its last step, and the digest of what that released: (0, "") if the series was paid for and has no step yet, None
            if no spend has named it.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the identifier is not a text, or is empty.
        OSError
            If the file cannot be read or is damaged.
        """
        from dpcore.accounting.ledger.creation import check_text

        check_text("series", series)
        return self._opened.last_step(series)

    def note_step(self, spend: int, series: str, step: int, answer: str) -> None:
        """Record that a step of a series was made, before what it released is published.

        Parameters
        ----------
        spend : int
            The `id` of the spend that makes the step.
        series : str
            Identifier of the series, which was paid for.
        step : int
            Its next step, counted from 1. The last one may be recorded again with the same answer.
        answer : str
            Digest of what is released. It must not depend on anything that is not: everyone who can read the ledger can read it.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the step is not the next one, or an argument is wrong.
        OSError
            If the ledger cannot be written.
        """
        from dpcore._validation import check_integer
        from dpcore.accounting.ledger.creation import check_text

        check_text("series", series)
        check_text("answer", answer)
        self._opened.note_step(spend, series, check_integer("step", step, low=1), answer)

    # Runs that other processes left

    def complete(self) -> tuple[Entry, ...]:
        """Publish the outputs of runs that were sealed by processes that have died.

        Each temporary file whose digest agrees gets its final name, if no other file has taken that name. A file that already has its final
        name counts as published. Runs of processes that are alive are left alone. Runs whose files are missing or cannot be renamed stay
        as they are.

        Returns
        -------
        tuple of Entry
            The runs that this call completed.

        Raises
        ------
        OSError
            If the ledger cannot be read or written.
        """
        return self._opened.complete()

    def abandon(self, number: int) -> None:
        """Give up a run that is "reserved" or "sealed". It becomes "failed" with the reason "abandoned", and its cost stays spent.

        Parameters
        ----------
        number : int
            The `id` of its entry.

        Raises
        ------
        ParameterError
            If there is no such entry, or it was published.
        OSError
            If the ledger cannot be read or written.
        """
        ids = [entry.id for entry in self._opened.entries()]
        if number not in ids:
            raise ParameterError(f"number must be the id of an entry, in [1, {len(ids)}], got {number!r}")
        self._opened.advance(number, "fail", reason="abandoned")

    def check_writable(self) -> None:
        """Write to the ledger without spending, so that file errors show before you compute something. Completes sealed runs first.

        Raises
        ------
        OSError
            If the ledger cannot be written: PermissionError, TimeoutError if it stays locked, no space, or damage.
        """
        self._opened.complete()
        self._opened.note_check()

    # Display

    def __repr__(self) -> str:
        from dpcore.accounting.ledger import display

        return display.text(self._opened)

    def _repr_html_(self) -> str:
        from dpcore.accounting.ledger import display

        return display.html(self._opened)
