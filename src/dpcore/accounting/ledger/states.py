"""The life of a spend, as a table: what may happen to it, and what it is then. Whatever it is, it counts in full."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from dpcore.errors import DataError, EntropyError, ParameterError, ParameterTypeError

if TYPE_CHECKING:
    from collections.abc import Mapping

State = Literal["reserved", "sealed", "published", "done", "failed"]
Event = Literal["seal", "publish", "finish", "fail"]

START: State = "reserved"
NEXT: Mapping[tuple[State, Event], State] = {
    ("reserved", "seal"): "sealed",
    ("reserved", "finish"): "done",  # what was released through no file
    ("reserved", "fail"): "failed",
    ("sealed", "publish"): "published",
    ("sealed", "fail"): "failed",
    ("published", "publish"): "published",
    ("published", "finish"): "done",
    # The run may have been finished by another process in the meantime.
    ("done", "publish"): "done",
    ("done", "finish"): "done",
    ("failed", "fail"): "failed",
}
"""What follows; every other pair is refused. Nothing leads out of "done" and "failed", and what is published cannot fail."""

_REASON = re.compile(r"[a-z][a-z0-9-]{0,31}")


def after(state: State, event: Event) -> State:
    """Return the state that follows, else raise."""
    following = NEXT.get((state, event))
    if following is None:
        raise ParameterError(f"a spend that is {state!r} cannot {event}")
    return following


def check_reason(reason: object) -> str:
    """Return a reason class, else raise: one word, so that no message (which may tell of the data) gets into a ledger."""
    if not isinstance(reason, str):
        raise ParameterTypeError(f"reason must be a str, got {type(reason).__name__}")
    if not _REASON.fullmatch(reason):
        raise ParameterError("reason must be one word of a-z, 0-9 and -, of at most 32 characters: it names a class of failures")
    return reason


def reason_of(error: BaseException) -> str:
    """Name the class of a failure; nothing of its message is used."""
    if not isinstance(error, Exception):
        return "interrupted"
    classes: tuple[tuple[type[Exception], str], ...] = (
        (EntropyError, "entropy"),
        (DataError, "data"),
        (MemoryError, "memory"),
        (OSError, "storage"),
    )
    return next((word for kind, word in classes if isinstance(error, kind)), "error")
