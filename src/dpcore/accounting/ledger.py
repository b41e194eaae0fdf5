"""A budget in a file, which several processes may spend from and none can overspend."""

from __future__ import annotations

import errno
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from dpcore._validation import check_choice, check_real
from dpcore._version import __version__
from dpcore.accounting._checks import check_privacy
from dpcore.errors import BudgetError, ParameterError, ParameterTypeError
from dpcore.privacy import Privacy, written_up

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Self

    from dpcore.accounting._amounts import Amount
    from dpcore.accounting.uses import Uses

Accounting = Literal["basic", "zcdp"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend, as a ledger keeps it.

    Parameters
    ----------
    id : int
        Number of the spend in its ledger, from 1 on.
    what : str
        What it was for.
    when : datetime
        When it was reserved, in UTC.
    epsilon, delta, rho : float or None
        What it costs; None for what the ledger did not need to know.
    job : str or None
        What the spender called its job.
    version : str
        The dpcore that spent.
    state : {"reserved", "done"}
        Reserved spends count like done ones: a process that was killed may have released its answer.
    """

    id: int
    what: str
    when: datetime
    epsilon: float | None
    delta: float | None
    rho: float | None
    job: str | None
    version: str
    state: Literal["reserved", "done"]


class Reservation:
    """A spend that the ledger has on disk. As a context manager it is marked done if the block ends without an exception.

    Whether it is marked or not, it is spent for good.
    """

    def __init__(self, number: int, finish: Callable[[int], None]) -> None:
        self.id = number
        self._finish, self._done = finish, False

    def done(self) -> None:
        """Mark the spend as done, in a transaction of its own; a second call does nothing.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        if not self._done:
            self._finish(self.id)
            self._done = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.done()

    def __repr__(self) -> str:
        return f"Reservation(id={self.id}, done={self._done})"


class Ledger:
    r"""A budget (ε, δ) kept in an SQLite file.

    Parameters
    ----------
    path : str or path
        The file.
    budget : Privacy, optional
        Makes the ledger if there is none. If there is one, its budget must be this one.
    accounting : {"basic", "zcdp"}, optional
        How spends add up; "basic" for a new ledger. If the file exists, its accounting must be this one.
    unit : str, optional
        Whose data the budget protects: "row", as for a new ledger if nothing is said, or the name of what identifies a person. If the
        file exists, its unit must be this one.
    timeout : float, default 30.0
        Seconds to wait for other processes, in [0, 3600].

    Raises
    ------
    FileNotFoundError
        If there is no such file, and no budget to make one from.
    ParameterError, ParameterTypeError
        If the file is no ledger, a ledger of another format or budget, or an argument is wrong.
    OSError
        If the file cannot be read, or is damaged; PermissionError, IsADirectoryError, TimeoutError among them.

    Notes
    -----
    A spend is reserved in a transaction of its own, on disk before `spend` returns, and marked done in a second one after the release.
    A process that dies between the two leaves a reservation, which counts as spent. The lock that reads the totals is the lock that writes
    the reservation, so two processes cannot both take what is left. Nothing is ever given back.

    Totals are exact: "basic" adds ε and δ as the decimal numbers they were written as, so that 0.1 + 0.2 fits into 0.3; "zcdp" adds ρ, and
    what was spent is its conversion by `zcdp_epsilon` at the budget's δ, less the δ of approximate spends. It is one rule for the whole
    life of the ledger, never the best of several: choosing afterwards would not be sound.

    SQLite needs a local file system, or one whose locks work. The journal is the rollback kind, with every commit synced.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> ledger = Ledger(f"{folder.name}/survey.ledger", Privacy(1.0, 1e-6))
    >>> with ledger.spend(Privacy(0.75), what="income histogram"):
    ...     pass  # release it here
    >>> ledger.remaining
    Privacy(epsilon=0.25, delta=1e-06, relation='replace')
    >>> ledger.spend(Privacy(0.5), what="age histogram")
    Traceback (most recent call last):
        ...
    dpcore.errors.BudgetError: 'age histogram' needs epsilon 0.5, delta 0.0; the ledger has epsilon 0.25, delta 1e-06 left
    >>> [(entry.what, entry.epsilon, entry.state) for entry in ledger.entries()]
    [('income histogram', 0.75, 'done')]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        budget: Privacy | None = None,
        *,
        accounting: Accounting | None = None,
        unit: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        from dpcore.accounting import _ledger_file

        self.path: Path = _ledger_file.resolve(path)
        self._timeout = _check_timeout(timeout)
        if accounting is not None:
            check_choice("accounting", accounting, ("basic", "zcdp"))
        if unit is not None:
            _check_text("unit", unit)
        if budget is not None:
            _make(self.path, self._timeout, _check_budget(budget, accounting or "basic"), accounting or "basic", unit or "row")
        elif _ledger_file.size(self.path) is None:
            raise FileNotFoundError(errno.ENOENT, "no ledger here: make one with Ledger.create or `dpcore ledger create`", str(self.path))
        self.budget, self.accounting, self.unit = self._open()
        if budget is not None and budget != self.budget:
            raise ParameterError(f"budget must be the one the ledger was made with, {self.budget!r}, got {budget!r}")
        if accounting is not None and accounting != self.accounting:
            raise ParameterError(f"accounting must be the one the ledger was made with, {self.accounting!r}, got {accounting!r}")
        if unit is not None and unit != self.unit:
            raise ParameterError(f"unit must be the one the ledger was made with, {self.unit!r}, got {unit!r}")

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Privacy,
        *,
        accounting: Accounting = "basic",
        unit: str = "row",
        timeout: float = 30.0,
    ) -> Ledger:
        r"""Make a new ledger.

        Parameters
        ----------
        path : str or path
            A file that does not exist, in a folder that does.
        budget : Privacy
            What may be spent: ε finite, and δ > 0 for "zcdp".
        accounting : {"basic", "zcdp"}, default "basic"
            How spends add up, for good.
        unit : str, default "row"
            Whose data the budget protects, for good: an ε per row and an ε per person do not add up.
        timeout : float, default 30.0
            As in `Ledger`.

        Returns
        -------
        Ledger
            On disk, its folder synced.

        Raises
        ------
        FileExistsError
            If the file exists, whatever it is.
        ParameterError, ParameterTypeError, OSError
            As in `Ledger`.
        """
        from dpcore.accounting import _ledger_file

        check_choice("accounting", accounting, ("basic", "zcdp"))
        _check_text("unit", unit)
        where, seconds = _ledger_file.resolve(path), _check_timeout(timeout)
        if not _make(where, seconds, _check_budget(budget, accounting), accounting, unit):
            raise FileExistsError(errno.EEXIST, "a ledger is never overwritten, and there is a file already", str(where))
        return cls(where, timeout=seconds)

    def spend(self, amount: Privacy | Uses | float, *, what: str, job: str | None = None) -> Reservation:
        r"""Reserve a part of the budget, or refuse.

        Parameters
        ----------
        amount : Privacy, Uses or float
            What the release costs. A float is a ρ, for ledgers with "zcdp" only. There, ε-private spends cost `rho_pure`, (ε, δ)-private
            ones that and their δ, and `Uses` the ρ of their mechanism.
        what : str
            What for; anyone who can read the ledger reads it.
        job : str, optional
            Identifies the job that spends.

        Returns
        -------
        Reservation
            Already on disk. Draw noise now; then call its `done`, or leave its `with` block.

        Raises
        ------
        BudgetError
            If it does not fit into what is left; nothing is written.
        ParameterError, ParameterTypeError
            If an argument is wrong, or speaks of other neighbours than the budget.
        OSError
            If the file cannot be read or written.
        """
        from dpcore.accounting import _amounts

        wanted = _amounts.amount_of(amount, self.accounting, self.budget.relation)
        _check_text("what", what)
        if job is not None:
            _check_text("job", job)
        with self._transaction(write=True) as connection:
            self._check_budget_is_the_same(connection)
            total = _amounts.total(connection, self.path, self.accounting)
            if not _amounts.fits(total + wanted, self.budget):
                raise BudgetError(f"{what!r} needs {wanted}; the ledger has {_amounts.left(total, self.budget)} left")
            cursor = connection.execute(
                "INSERT INTO spend (what, reserved, epsilon, delta, rho, job, version) VALUES (?, ?, ?, ?, ?, ?, ?)",
                (what, _now(), *wanted.texts(), job, __version__),
            )
            number = cursor.lastrowid
        return Reservation(int(number or 0), self._finish)

    @property
    def spent(self) -> Privacy:
        """What all spends together cost, reserved ones included: rounded up, by the ledger's accounting."""
        from dpcore.accounting import _amounts

        return _amounts.spent(self._total(), self.budget)

    @property
    def remaining(self) -> Privacy:
        """The largest single spend that still fits. For "zcdp" that is an ε of a mechanism that is ε-private, with no δ."""
        from dpcore.accounting import _amounts

        return _amounts.remaining(self._total(), self.budget)

    @property
    def spent_rho(self) -> float:
        """The sum of ρ, rounded up; for "zcdp" only."""
        from fractions import Fraction

        return written_up(self._rho_total().rho or Fraction(0))

    @property
    def remaining_rho(self) -> float:
        """The largest single ρ that still fits, within 10^−9; for "zcdp" only."""
        from dpcore.accounting import _amounts

        return _amounts.remaining_rho(self._rho_total(), self.budget)

    def entries(self) -> Iterator[Entry]:
        """Give all spends, in the order they were made.

        Returns
        -------
        iterator of Entry
            As of now; what is spent while it is read does not show.
        """
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT id, what, reserved, epsilon, delta, rho, job, version, done IS NOT NULL FROM spend ORDER BY id"
            ).fetchall()
        return iter([_entry(row, self.path) for row in rows])

    def _total(self) -> Amount:
        from dpcore.accounting import _amounts

        with self._transaction() as connection:
            self._check_budget_is_the_same(connection)
            return _amounts.total(connection, self.path, self.accounting)

    def _rho_total(self) -> Amount:
        if self.accounting != "zcdp":
            raise ParameterError(f"accounting must be 'zcdp' for totals of rho, and the ledger has {self.accounting!r}")
        return self._total()

    def _transaction(self, *, write: bool = False) -> AbstractContextManager[sqlite3.Connection]:
        from dpcore.accounting import _ledger_file

        if _ledger_file.size(self.path) is None:
            raise FileNotFoundError(errno.ENOENT, "the ledger is gone", str(self.path))
        return _ledger_file.transaction(self.path, self._timeout, write=write)

    def _check_budget_is_the_same(self, connection: sqlite3.Connection) -> None:
        """Refuse a file that has taken the place of the one that was opened: its spends would be held against the wrong budget."""
        from dpcore.accounting import _ledger_file

        if self._header(_ledger_file.read_budget(connection)) != (self.budget, self.accounting, self.unit):
            raise OSError(errno.ESTALE, "another ledger has taken the place of this one: open it anew", str(self.path))

    def _open(self) -> tuple[Privacy, Accounting, str]:
        from dpcore.accounting import _ledger_file

        with self._transaction() as connection:
            row = _ledger_file.read_header(connection, self.path)
        return self._header(row)

    def _header(self, row: tuple[Any, ...] | None) -> tuple[Privacy, Accounting, str]:
        from dpcore.accounting import _amounts

        try:
            epsilon, delta, relation, accounting, unit = row or ()
            return Privacy(float(epsilon), float(delta), relation), accounting, unit
        except (ValueError, TypeError) as error:
            raise _amounts.damaged(self.path) from error

    def _finish(self, number: int) -> None:
        with self._transaction(write=True) as connection:
            connection.execute("UPDATE spend SET done = ? WHERE id = ? AND done IS NULL", (_now(), number))

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r}, budget={self.budget!r}, accounting={self.accounting!r}, unit={self.unit!r})"


def _make(path: Path, timeout: float, budget: Privacy, accounting: Accounting, unit: str) -> bool:
    """Make a ledger; False if there is a file already."""
    from dpcore.accounting import _ledger_file

    if _ledger_file.size(path):  # an empty file is what a process leaves that dies before its ledger is complete
        return False
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "no such folder to make a ledger in", str(path.parent))
    row = (repr(budget.epsilon), repr(budget.delta), budget.relation, accounting, unit, _now(), __version__)
    return _ledger_file.make(path, timeout, row)


def _check_timeout(timeout: object) -> float:
    return check_real("timeout", timeout, low=0.0, high=3600.0)


def _check_budget(budget: object, accounting: Accounting) -> Privacy:
    checked = check_privacy("budget", budget)
    if not checked.epsilon < math.inf:
        raise ParameterError(f"budget must have a finite epsilon, got {checked.epsilon!r}")
    if accounting == "zcdp" and not checked.delta:
        raise ParameterError("budget must have delta > 0 with accounting='zcdp', got 0.0")
    return checked


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise ParameterTypeError(f"{name} must be a str, got {text!r}")
    if not text or "\0" in text:
        raise ParameterError(f"{name} must be a text that is not empty and has no NUL, got {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{name} must be text that UTF-8 can encode, got {text!r}") from None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(row: tuple[Any, ...], path: Path) -> Entry:
    from dpcore.accounting import _amounts

    number, what, reserved, *amounts, job, version, done = row
    try:
        epsilon, delta, rho = (None if text is None else written_up(_amounts.amount_in_file(text)) for text in amounts)
        return Entry(number, what, datetime.fromisoformat(reserved), epsilon, delta, rho, job, version, "done" if done else "reserved")
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _amounts.damaged(path) from error
