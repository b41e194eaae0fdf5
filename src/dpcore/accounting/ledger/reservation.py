"""A reserved spend: what the program that drew the noise reports about it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore._processes import OneProcess
from dpcore.accounting.ledger.states import START, after, check_reason, reason_of
from dpcore.errors import ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Self

    from dpcore._disk.sealed_files import SealedFile
    from dpcore.accounting.ledger.states import Event, State


class Reservation(OneProcess):
    """A spend that is recorded on disk; `Ledger.spend` returns it. It stays spent even if the release fails afterwards.

    Use it as a context manager around the code that draws the noise. The spend becomes "done" if the block ends without an exception and
    "failed" if the block raises. A spend that was sealed before the exception stays "sealed": its outputs are complete, and the next
    process that opens the ledger publishes them. One reservation pays for one block, in the process that made it.

    Parameters
    ----------
    id : int
        Number of the spend in its ledger.
    advance : callable
        Function of the ledger that records what happened to the spend.

    Attributes
    ----------
    id : int
        Number of the spend in its ledger.
    state : {"reserved", "sealed", "published", "done", "failed"}
        State that this process last recorded.

    Raises
    ------
    ParameterError
        On entering a second block.
    BudgetError
        On entering a block in another process than the one that made it.
    ParameterTypeError
        On being copied or pickled.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dpcore import Privacy
    >>> from dpcore.accounting import Ledger
    >>> with TemporaryDirectory() as folder:
    ...     ledger = Ledger.create(f"{folder}/survey.ledger", epsilon=1.0)
    ...     with ledger.spend(Privacy(0.5), what="income histogram") as reservation:
    ...         pass  # draw the noise here
    >>> reservation
    Reservation(id=1, state='done')
    """

    WORDS = "a Reservation pays for one block, and two of it would pay for two"
    id: int
    state: State

    def __init__(self, id: int, advance: Callable[..., None]) -> None:  # noqa: A002
        super().__init__()
        self.id, self.state = id, START
        self._advance = advance

    def seal(self, files: Sequence[SealedFile], *, overwrite: bool = False) -> None:
        """Record that the outputs are complete. Once this returns, any process can publish them. Jobs of dpcore call it.

        Parameters
        ----------
        files : sequence of SealedFile
            All outputs, at least one. Each temporary file is synced. It stays locked with `flock` while this process intends to rename it
            itself.
        overwrite : bool, default False
            Whether files that have the final names now may be replaced. If another process publishes, files that took a name later stay.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the spend is not "reserved", or an argument is wrong.
        OSError
            If the ledger cannot be written.
        """
        from dpcore._disk.sealed_files import SealedFile

        every = tuple(files)
        if not every or not all(isinstance(file, SealedFile) for file in every):
            raise ParameterTypeError("files must hold at least one dpcore._disk.sealed_files.SealedFile, and no objects of other types")
        self._to("seal", files=every, overwrite=bool(overwrite))

    def published(self) -> None:
        """Record that every sealed file has its final name. Raises as `seal` does."""
        self._to("publish")

    def done(self) -> None:
        """Record that the release is complete. Raises as `seal` does. A second call has no effect."""
        self._to("finish")

    def failed(self, reason: str) -> None:
        """Record that there will be no output. The cost stays spent.

        Parameters
        ----------
        reason : str
            Class of the failure as one word, such as "interrupted", "storage" or "data": at most 32 characters of a–z, 0–9 and "-",
            beginning with a letter. Messages are refused, because they may reveal data.

        Raises
        ------
        ParameterError, ParameterTypeError
            If the spend is "published" or "done", or the reason is not such a word.
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
        self.refuse_elsewhere()
        if self.state in {"done", "failed"}:
            raise ParameterError(f"a spend pays for one release, and this one is already {self.state!r}: call Ledger.spend again")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None:
            if self.state != "failed":
                self.done()
        elif self.state == START:
            try:
                self.failed(reason_of(error))
            except (OSError, ParameterError):
                return  # it keeps its state, and the error of the block is the one to report

    def __repr__(self) -> str:
        return f"Reservation(id={self.id}, state={self.state!r})"
