"""What a ledger says of itself and of its spends, and a spend that is under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpcore.accounting._states import START, after, check_reason, reason_of
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from types import TracebackType
    from typing import Self

    from dpcore.accounting._sealed_files import SealedFile
    from dpcore.accounting._states import Event, State
    from dpcore.privacy import Relation

Kind = Literal["basic", "zcdp"]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a ledger, or a part of them.

    Parameters
    ----------
    epsilon : float or None
        Σε of a ledger of kind "basic"; None for "zcdp".
    delta : float
        Σδ; for "zcdp" the δ of failures only, not that of a conversion.
    rho : float or None
        Σρ of a ledger of kind "zcdp"; None for "basic".
    """

    epsilon: float | None
    delta: float
    rho: float | None = None


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
        What it costs, rounded up; None for what the ledger did not need to know.
    job, run : str or None
        What the spender called its job, and what identifies this run of it.
    version : str
        The dpcore that spent.
    relation : {"replace", "add_remove"}
        The neighbours that the amount speaks of.
    unit : str
        Whose data it protects: "row", or the name of what identifies a person.
    dataset : str or None
        The declared name of the data set.
    secure : bool
        Always true: a ledger pays for no keyed noise.
    state : {"reserved", "sealed", "published", "done", "failed"}
        How far it got. Each counts in full.
    reason : str or None
        For a failed one, the class of the failure.
    files : tuple of SealedFile
        The outputs, once they are sealed.
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


class Reservation:
    """A spend that the ledger has on disk. Whatever becomes of it, it is spent for good.

    As a context manager it is done if the block ends without an exception. If the block raises, it failed, unless it was sealed before:
    then its outputs are complete, and whoever opens the ledger next publishes them. It pays for one block: one that is done or failed
    opens no other.

    Attributes
    ----------
    id : int
        Number of the spend in its ledger.
    state : str
        What this process last made of it.
    """

    def __init__(self, number: int, advance: Callable[..., None]) -> None:
        self.id, self.state = number, START
        self._advance = advance

    def seal(self, files: Sequence[SealedFile], *, overwrite: bool = False) -> None:
        """Tell the ledger that the outputs are complete; once this returns, any process can publish them.

        Parameters
        ----------
        files : sequence of SealedFile
            All outputs, at least one; each temporary synced, and locked with `flock` for as long as this process means to move it itself.
        overwrite : bool, default False
            Whether files that have the names now are replaced. Files that take a name later are not, if another process publishes.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the spend is not reserved any more, or an argument is wrong.
        OSError
            If the ledger cannot be written.
        """
        from dpcore.accounting._sealed_files import SealedFile

        every = tuple(files)
        if not every or not all(isinstance(file, SealedFile) for file in every):
            raise ParameterTypeError("files must be dpcore.accounting.SealedFile, at least one")
        self._to("seal", files=every, overwrite=bool(overwrite))

    def published(self) -> None:
        """Note that every sealed file has its name; raises as `seal` does."""
        self._to("publish")

    def done(self) -> None:
        """Note that nothing is left to do; raises as `seal` does. A second call does nothing."""
        self._to("finish")

    def failed(self, reason: str) -> None:
        """Note that there will be no output; the charge stays.

        Parameters
        ----------
        reason : str
            The class of the failure, as one word: "interrupted", "storage", "data", ...; never a message, which may tell of the data.

        Raises
        ------
        ParameterError, ParameterTypeError
            If it was published or done, or the reason is no such word.
        OSError
            If the ledger cannot be written.
        """
        self._to("fail", reason=check_reason(reason))

    def _to(self, event: Event, **details: object) -> None:
        following = after(self.state, event)
        if following != self.state:
            self._advance(self.id, event, **details)
            self.state = following

    def __enter__(self) -> Self:
        if self.state in {"done", "failed"}:
            raise ParameterError(f"a spend pays for one release, and this one is {self.state!r}: spend again")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            if self.state != "failed":
                self.done()
        elif self.state == START:
            try:
                self.failed(reason_of(error))
            except (OSError, ParameterError):
                return  # it stays what it is, reserved or what a child of fork made of it; the block's own error is the one to tell

    def __repr__(self) -> str:
        return f"Reservation(id={self.id}, state={self.state!r})"
