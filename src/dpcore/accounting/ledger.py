"""A budget in a file, which several processes may spend from and none can overspend."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from dpcore._validation import check_choice, check_real
from dpcore._version import __version__
from dpcore.accounting.spends import Budget, Entry, Kind, Reservation
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, Relation, as_written, written_down, written_up

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import TypeAlias

    from dpcore.accounting._amounts import Amount
    from dpcore.accounting._ledger_rows import Checked
    from dpcore.accounting._sealed_files import SealedFile
    from dpcore.accounting._states import Event, State
    from dpcore.accounting.uses import Uses

    Spend: TypeAlias = "Privacy | Uses | float | Sequence[Spend]"


class Ledger:
    r"""A privacy filter kept in an SQLite file: a budget that no sequence of spends exceeds, however each depends on answers before it.

    Parameters
    ----------
    path : str or path
        The file, which exists: `Ledger.create` makes one. Links are followed once, here.
    timeout : float, default 30.0
        Seconds to wait for other processes, in [0, 3600].

    Attributes
    ----------
    path : Path
        The file itself, absolute.
    kind : {"basic", "zcdp"}
        What adds up: ε and δ, or ρ and the δ of failures.
    budget : Budget
        The limits, fixed when the ledger was made.
    relation : {"replace", "add_remove"}
        The neighbours that it speaks of.
    unit : str
        Whose data it protects.
    dataset : str or None
        The data set that it is for; None for several.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ParameterError, ParameterTypeError
        If the file is no ledger, or one of another format, or an argument is wrong.
    OSError
        If the file cannot be read, or is damaged; PermissionError, IsADirectoryError, TimeoutError among them.

    Notes
    -----
    A spend is reserved in a transaction of its own, on disk before `spend` returns, and what becomes of it is written in later ones. A
    process that dies in between leaves its reservation, which counts as spent; nothing is ever given back. The lock that reads the totals
    is the lock that writes the reservation, so two processes cannot both take what is left.

    Guarantee of everything that was paid for together, for amounts chosen after seeing earlier answers: (ε₀, δ₀) for "basic"; for "zcdp"
    δ₀-approximate ρ₀-zCDP, so that `privacy` gives an ε for every δ > δ₀. Totals are exact: amounts are added as the decimal numbers
    they were written as, so that 0.1 + 0.2 fits into 0.3. The theorems: docs/accounting.md, "What a ledger promises".

    SQLite needs a local file system, or one whose locks work. The journal is the rollback kind, with every commit synced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> ledger = Ledger.create(f"{folder.name}/survey.ledger", epsilon=1.0, delta=1e-6)
    >>> with ledger.spend(Privacy(0.75), what="income histogram"):
    ...     pass  # release it here
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

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        from dpcore.accounting import _ledger_file, _ledger_rows

        self.path: Path = _ledger_file.resolve(path)
        self._timeout = _check_timeout(timeout)
        self._checked: Checked | None = None
        if _ledger_file.size(self.path) is None:
            raise FileNotFoundError(errno.ENOENT, "no ledger here: make one with Ledger.create or `dpcore ledger create`", str(self.path))
        with _ledger_file.transaction(self.path, self._timeout) as connection:
            _ledger_file.check_format(connection, self.path)
            self._header = _ledger_rows.read_header(connection, self.path)
            self._checked = _ledger_rows.check_spends(connection, self.path, self._header, None)
        self.kind: Kind = self._header.kind
        self.relation: Relation = self._header.relation
        self.unit, self.dataset = self._header.unit, self._header.dataset
        self.budget = self._rounded(self._header.budget, up=False)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        epsilon: float | None = None,
        delta: float = 0.0,
        rho: float | None = None,
        failure_delta: float = 0.0,
        relation: Relation = "replace",
        unit: str = "row",
        dataset: str | None = None,
        timeout: float = 30.0,
    ) -> Ledger:
        r"""Make a new ledger. All that is said here is fixed for good.

        Parameters
        ----------
        path : str or path
            A file that does not exist, in a folder that does.
        epsilon, delta : float
            Budget of a ledger of kind "basic": what Σε and Σδ may come to. ε in [0, ∞), δ in [0, 1).
        rho, failure_delta : float
            Budget of a ledger of kind "zcdp", instead: what Σρ may come to, in [0, ∞), and Σδ of spends that may fail, in [0, 1).
            `zcdp_rho` finds the ρ for an (ε, δ).
        relation : {"replace", "add_remove"}, default "replace"
            What neighbouring data sets are.
        unit : str, default "row"
            Whose data the budget protects: an ε per row and an ε per person do not add up.
        dataset : str, optional
            Declared name of the data set that it is for. Spends for another one are refused. None: a ledger for several.
        timeout : float, default 30.0
            As in `Ledger`.

        Returns
        -------
        Ledger
            On disk, its folder synced. A number that float64 does not hold was rounded down.

        Raises
        ------
        FileExistsError
            If the file exists, whatever it is, or one with the name of its journal.
        ParameterError, ParameterTypeError, OSError
            As in `Ledger`, or if both ε and ρ are given, or neither.
        """
        limits = {"epsilon": epsilon, "delta": delta, "rho": rho, "failure_delta": failure_delta}
        return make(path, limits, relation=relation, unit=unit, dataset=dataset, timeout=timeout)

    # Spending

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
    ) -> Reservation:
        r"""Reserve a part of the budget, or refuse. Runs that a dead process has sealed are completed first.

        Parameters
        ----------
        amount : Privacy, Uses, float, or a sequence of these
            What the release costs. A float is a ρ, for kind "zcdp" only. There an (ε, δ)-private release costs `rho_pure` of its ε, at most
            ε²/2, and its δ; `Uses` cost the ρ of their mechanism. Parts of a sequence are added.
        what : str
            What for; anyone who can read the ledger reads it.
        job, run : str, optional
            The job that spends, and what identifies this run of it: see `find`.
        relation, unit, dataset : str, optional
            What the release is about; the ledger's own if left out. What does not agree with the ledger is refused.
        secure : bool, default True
            Whether the noise comes from the operating system's randomness. False is refused: keyed noise protects nobody.

        Returns
        -------
        Reservation
            Already on disk. Draw noise now; then call its `done`, or leave its `with` block.

        Raises
        ------
        BudgetError
            If it does not fit into what is left; nothing is written.
        ParameterError, ParameterTypeError
            If an argument is wrong, or does not agree with the ledger.
        OSError
            If the file cannot be read or written.
        """
        from dpcore.accounting import _amounts, _ledger_rows

        wanted = _amounts.amount_of(amount, self.kind, self.relation)
        _check_text("what", what)
        _check_optional("job", job)
        _check_optional("run", run)
        named = self._check_agreement(relation, unit, dataset, secure)
        self.complete()
        with self._transaction(write=True) as connection:
            checked = self._check_spends(connection)
            if not _amounts.fits(checked.total + wanted, self._header.budget, self.kind):
                left = _amounts.rest(checked.total, self._header.budget).words(self.kind, up=False)
                raise BudgetError(f"{what!r} needs {wanted.words(self.kind)}; the ledger has {left} left")
            values = (what, _ledger_rows.now(), job, run, __version__, self.relation, self.unit, named)
            added = _ledger_rows.add(connection, checked, wanted, values)
        self._checked = added
        return Reservation(added.id, self._advance)

    def cost(self, amount: Spend) -> Budget:
        """Give what a spend would take from the budget, rounded up; spends nothing. Raises as `spend` does."""
        from dpcore.accounting import _amounts

        return self._rounded(_amounts.amount_of(amount, self.kind, self.relation), up=True)

    def fits(self, amount: Spend) -> bool:
        """Whether a spend would be granted just now; spends nothing, and another process may be faster. Raises as `spend` does."""
        from dpcore.accounting import _amounts

        wanted = _amounts.amount_of(amount, self.kind, self.relation)
        return _amounts.fits(self._total() + wanted, self._header.budget, self.kind)

    # What was spent

    @property
    def spent(self) -> Budget:
        """What all spends together cost, whatever became of them; rounded up."""
        return self._rounded(self._total(), up=True)

    @property
    def remaining(self) -> Budget:
        """The largest single spend that still fits, rounded down."""
        from dpcore.accounting import _amounts

        return self._rounded(_amounts.rest(self._total(), self._header.budget), up=False)

    def privacy(self, delta: float | None = None) -> Privacy:
        r"""Give the guarantee for everything that is ever paid for by this ledger, together.

        Parameters
        ----------
        delta : float, optional
            For kind "zcdp", where it is required: the δ of the guarantee, above `budget.delta`, which it includes.

        Returns
        -------
        Privacy
            It follows from the budget alone, never from what happened to be spent: an ε for what was spent so far would be no guarantee
            where amounts depend on answers.

        Raises
        ------
        ParameterError, ParameterTypeError
            If δ is outside (`budget.delta`, 1), or given for kind "basic".
        """
        from dpcore.accounting import _promises

        return _promises.promise(self._header, delta)

    def entries(self) -> Iterator[Entry]:
        """Give all spends, in the order they were made.

        Returns
        -------
        iterator of Entry
            As of now; what is spent while it is read does not show.
        """
        return iter(self._entries(lambda _: True))

    def find(self, run: str) -> Entry | None:
        """Give the newest spend of a run that has not failed, None if there is none.

        Parameters
        ----------
        run : str
            As in `spend`.

        Returns
        -------
        Entry or None
            One that is published or done has its outputs in place: the run need not be repeated, nor paid for again.
        """
        _check_text("run", run)
        found = self._entries(lambda entry: entry.run == run and entry.state != "failed")
        return found[-1] if found else None

    # Runs that others left

    def complete(self) -> tuple[Entry, ...]:
        """Publish what dead processes have sealed.

        Each temporary whose digest agrees gets its name, if no other file has taken it; what has its name already is found there. Runs of
        processes that live are left alone, and runs whose files cannot be found or moved stay as they are.

        Returns
        -------
        tuple of Entry
            The runs that are done now.

        Raises
        ------
        OSError
            If the ledger cannot be read or written.
        """
        from dpcore.accounting import _ledger_rows, _sealed_files

        with self._transaction() as connection:
            runs = _ledger_rows.unfinished(connection, self.path)
        finished = {
            number
            for number, state, outputs in runs
            if state == "published" or _sealed_files.finish(outputs.files, outputs.replaces, overwrite=outputs.overwrite)
        }
        if not finished:
            return ()
        with self._transaction(write=True) as connection:
            for number in finished:
                if _ledger_rows.state_of(connection, self.path, number) != "failed":  # abandoned in the meantime
                    _ledger_rows.advance(connection, self.path, number, "publish")
                    _ledger_rows.advance(connection, self.path, number, "finish")
        return tuple(self._entries(lambda entry: entry.id in finished))

    def abandon(self, number: int) -> None:
        """Give up a run that is reserved or sealed, as failed for the reason "abandoned": it is not completed any more. Its charge stays.

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
        if not any(entry.id == number for entry in self.entries()):
            raise ParameterError(f"number must be the id of an entry of this ledger, got {number!r}")
        self._advance(number, "fail", reason="abandoned")

    def check_writable(self) -> None:
        """Write to the ledger without spending, so that a spend soon after does not fail for the file's sake. Completes sealed runs.

        Raises
        ------
        OSError
            If it cannot be written: PermissionError, TimeoutError if it stays locked, no space, damage.
        """
        from dpcore.accounting import _ledger_rows

        self.complete()
        with self._transaction(write=True) as connection:
            self._check_spends(connection)
            connection.execute("INSERT OR REPLACE INTO checked VALUES (1, ?)", (_ledger_rows.now(),))

    # Parts

    def _advance(
        self, number: int, event: Event, *, reason: str | None = None, files: Sequence[SealedFile] = (), overwrite: bool = False
    ) -> None:
        from dpcore.accounting import _ledger_rows

        with self._transaction(write=True) as connection:
            _ledger_rows.advance(connection, self.path, number, event, reason)
            if files:
                _ledger_rows.seal(connection, number, files, overwrite=overwrite)

    def _entries(self, wanted: Callable[[Entry], bool]) -> list[Entry]:
        from dpcore.accounting import _ledger_rows

        with self._transaction() as connection:
            every = [Entry(*values) for values in _ledger_rows.entries(connection, self.path)]
        return [entry for entry in every if wanted(entry)]

    def _total(self) -> Amount:
        with self._transaction() as connection:
            return self._check_spends(connection).total

    def _check_spends(self, connection: sqlite3.Connection) -> Checked:
        from dpcore.accounting import _ledger_rows

        self._checked = _ledger_rows.check_spends(connection, self.path, self._header, self._checked)
        return self._checked

    def _check_agreement(self, relation: object, unit: object, dataset: str | None, secure: object) -> str | None:
        """Refuse what is not of this ledger's kind; return the name of the data set."""
        for name, value, own in (("relation", relation, self.relation), ("unit", unit, self.unit)):
            if value is not None and value != own:
                raise ParameterError(f"{name} must be that of the ledger, {own!r}, got {value!r}: such guarantees do not add up")
        _check_optional("dataset", dataset)
        if self.dataset is not None and dataset not in (None, self.dataset):
            raise ParameterError(f"dataset must be the one the ledger was made for, {self.dataset!r}, got {dataset!r}")
        if secure is not True:
            raise ParameterError(
                "secure must be True: noise under a key can be computed by whoever has the key, and a ledger does not pay for it"
            )
        return self.dataset if dataset is None else dataset

    def _transaction(self, *, write: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        from dpcore.accounting import _ledger_rows

        return _ledger_rows.transaction(self.path, self._timeout, self._header, write=write)

    def _rounded(self, amount: Amount, *, up: bool) -> Budget:
        rounded = written_up if up else written_down
        epsilon, rho = (None if exact is None else rounded(exact) for exact in (amount.epsilon, amount.rho))
        return Budget(epsilon, rounded(amount.delta), None) if self.kind == "basic" else Budget(None, rounded(amount.delta), rho)

    def __repr__(self) -> str:
        about = f"relation={self.relation!r}, unit={self.unit!r}, dataset={self.dataset!r}"
        return f"Ledger({str(self.path)!r}, kind={self.kind!r}, budget={self.budget!r}, {about})"


def make(
    path: str | os.PathLike[str],
    limits: Mapping[str, float | None],
    *,
    relation: Relation,
    unit: str,
    dataset: str | None,
    timeout: float,
    carried: Iterable[tuple[Amount, Sequence[object], State]] = (),
) -> Ledger:
    """Make a ledger, with spends that were made elsewhere: amount, values of `_ledger_rows.add`, and state of each."""
    from dpcore.accounting import _ledger_file, _ledger_rows

    kind, budget = _check_budget(**limits)
    check_choice("relation", relation, ("replace", "add_remove"))
    _check_text("unit", unit)
    _check_optional("dataset", dataset)
    where, seconds = _ledger_file.resolve(path), _check_timeout(timeout)
    size = _ledger_file.size(where)
    if size:  # an empty file is what a process leaves that dies before its ledger is complete
        raise FileExistsError(errno.EEXIST, "a ledger is never overwritten, and there is a file already", str(where))
    if size is None:
        _ledger_file.check_beside(where)
    if not where.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to make a ledger in", str(where.parent))
    if not _ledger_rows.create(where, seconds, _ledger_rows.Header(kind, budget, relation, unit, dataset), carried):
        raise FileExistsError(errno.EEXIST, "a ledger is never overwritten, and another process has just made one", str(where))
    return Ledger(where, timeout=seconds)


def _check_timeout(timeout: object) -> float:
    return check_real("timeout", timeout, low=0.0, high=3600.0)


def _check_budget(epsilon: object = None, delta: object = 0.0, rho: object = None, failure_delta: object = 0.0) -> tuple[Kind, Amount]:
    from fractions import Fraction

    from dpcore.accounting._amounts import Amount, read_number

    if (epsilon is None) == (rho is None):
        raise ParameterTypeError("either epsilon or rho must be given: a ledger adds up the one or the other")
    kind: Kind = "zcdp" if epsilon is None else "basic"
    names = ("epsilon", "delta") if rho is None else ("rho", "failure_delta")
    other, value = ("failure_delta", failure_delta) if rho is None else ("delta", delta)
    if value != 0:
        raise ParameterError(f"{other} must be left out together with {names[0]}, got {value!r}")
    most = as_written(read_number(names[0], epsilon if rho is None else rho, written_down))
    failures = as_written(read_number(names[1], delta if rho is None else failure_delta, written_down))
    if failures >= 1:
        raise ParameterError(f"{names[1]} must be in [0.0, 1.0), got {delta if rho is None else failure_delta!r}")
    none: Fraction | None = None
    return kind, Amount(most, failures, none) if kind == "basic" else Amount(none, failures, most)


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise ParameterTypeError(f"{name} must be a str, got {text!r}")
    if not text or "\0" in text:
        raise ParameterError(f"{name} must be a text that is not empty and has no NUL, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{name} must be text that UTF-8 can encode, got {text!r}") from None


def _check_optional(name: str, text: object) -> None:
    if text is not None:
        _check_text(name, text)
