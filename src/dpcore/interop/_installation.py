"""Replace attributes of a peer's own objects, for the whole process, and restore every one of them.

What is replaced is noted on the peer's module, and not in a module of dpcore: `importlib.reload` of an adapter or of this module makes
objects that know nothing, which find the note there. A reload of the peer undoes replacements; the next `install` puts them back.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, MutableMapping
from types import ModuleType, TracebackType
from typing import Any, Self

from dpcore._dataclasses import dataclass
from dpcore.errors import ForeignPatchError, ParameterError
from dpcore.interop._peers import Peer

Owner = type | ModuleType | MutableMapping[Any, Any]
_ABSENT: Any = Ellipsis
"""In place of an attribute that the owner inherits or does not have: an object of Python's own, which a reload does not make again."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One attribute, or one entry of a dict, that is replaced.

    Attributes
    ----------
    owner : class, module or dict
        Where it is.
    name : str
        Of the attribute, or the key of the entry.
    new : object
        What stands there while the replacement is installed.
    homes : tuple of str
        Packages beside the peer that may have defined what stood there, for instance those of a decorator.
    """

    owner: Owner
    name: Any
    new: Any
    homes: tuple[str, ...] = ()

    def current(self) -> Any:
        """What the owner itself has under the name, without inheritance and as it is stored."""
        entries = self.owner if isinstance(self.owner, MutableMapping) else vars(self.owner)
        return entries.get(self.name, _ABSENT)

    def put(self, value: Any) -> None:
        """Store a value, or remove the entry."""
        if isinstance(self.owner, MutableMapping):
            if value is _ABSENT:
                del self.owner[self.name]
            else:
                self.owner[self.name] = value
        elif value is _ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)

    def __str__(self) -> str:
        where = "a dict" if isinstance(self.owner, MutableMapping) else getattr(self.owner, "__qualname__", self.owner.__name__)
        return f"{where}.{self.name}"


@dataclass(slots=True, eq=False)
class _Generation:
    """What is replaced between an `install` and the restoring of what was there."""

    options: dict[str, Any]
    kept: list[tuple[Replacement, Any]]
    claims: int = 0


_SEAT = "__dpcore_installation__"
"""The attribute of a peer's module that has its `_Seat`."""


class _Seat:
    """What a peer's module keeps: a lock, and the generation in place of each adapter. Later versions of this module find and use it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.generations: dict[str, Any] = {}

    @staticmethod
    def of(module: ModuleType) -> Any:
        """The seat of a module, which is made once."""
        seat = vars(module).get(_SEAT)
        if seat is None:
            made = _Seat()
            seat = vars(module).setdefault(_SEAT, made)  # one step, so that two threads get the same
            # A fork while another thread installs waits for that thread, so that no child has half of the replacements or a lock for ever.
            if seat is made and hasattr(os, "register_at_fork"):
                os.register_at_fork(before=seat.lock.acquire, after_in_parent=seat.lock.release, after_in_child=seat.lock.release)
        return seat


class Installation:
    """The replacements of one peer: in place for the whole process, or not.

    Parameters
    ----------
    peer : Peer
        Whose attributes are replaced.
    replacements : callable
        From the options of `install` to the replacements. It runs after the peer was imported.
    """

    def __init__(self, peer: Peer, replacements: Callable[..., Iterable[Replacement]]) -> None:
        self._peer = peer
        self._replacements = replacements
        self._name = f"{replacements.__module__}.{replacements.__qualname__}"  # which a reload does not change

    def _seat(self) -> Any:
        """The seat of the peer; None if it is not imported."""
        module = sys.modules.get(self._peer.module)
        return None if module is None else _Seat.of(module)

    def _found(self) -> Any:
        seat = self._seat()
        return None if seat is None else seat.generations.get(self._name)

    @property
    def active(self) -> bool:
        """Whether the replacements are in place."""
        return self._found() is not None

    def install(self, **options: Any) -> Installed:
        """Put the replacements in place, unless they are.

        Parameters
        ----------
        **options
            Of the replacements. They must be those of the installation that is in place, if one is.

        Returns
        -------
        Installed
            A context manager: at its end the peer is restored, unless somebody else has installed and not left. Without ``with`` the
            replacements stay until `uninstall`.

        Raises
        ------
        ModuleNotFoundError
            If the peer is absent.
        ParameterError
            If the replacements are in place with other options, or the peer is half imported.
        ForeignPatchError
            If another library has replaced one of the attributes. Nothing is changed then.
        """
        return Installed(self, self.claim(options))

    def claim(self, options: dict[str, Any]) -> _Generation:
        """Put the replacements in place, unless they are, and count one claim on them."""
        seat = _Seat.of(self._peer.require())
        with seat.lock:
            found: Any = seat.generations.get(self._name)
            if found is None:
                found = seat.generations[self._name] = _Generation(options, self._apply(options))
            elif found.options != options:
                raise ParameterError(
                    f"{self._peer.module} is served already, with {_words(found.options)}; call uninstall() before installing with "
                    f"{_words(options)}"
                )
            elif any(item.current() is not item.new or not _is_there(item.owner) for item, _ in found.kept):
                self._restore(found)  # the peer was reloaded
                del seat.generations[self._name]  # nothing is in place, if the next line raises
                found.kept = self._apply(options)
                seat.generations[self._name] = found
            found.claims += 1
            return found  # type: ignore[no-any-return]

    def uninstall(self) -> None:
        """Restore every attribute; do nothing if none is replaced.

        Raises
        ------
        ForeignPatchError
            If another library has replaced an attribute in the meantime: restoring would remove its work. Nothing is changed then.
        """
        seat = self._seat()
        if seat is None:
            return
        with seat.lock:
            if (found := self._found()) is not None:
                self._restore(found)
                del seat.generations[self._name]

    def _restore(self, generation: Any) -> None:
        """Put back what was there. An attribute that the peer's own reload has put back already stays."""
        for item, _ in generation.kept:
            if (current := item.current()) is not item.new and _home(current) not in self._homes(item):
                raise ForeignPatchError(f"{item} was replaced again after install(); undo that first, then call uninstall()")
        for item, original in reversed(generation.kept):
            if item.current() is item.new:
                item.put(original)

    def _homes(self, item: Replacement) -> tuple[str, ...]:
        """The packages that may define what the peer itself has there."""
        return (self._peer.module.partition(".")[0], *item.homes)

    def _apply(self, options: dict[str, Any]) -> list[tuple[Replacement, Any]]:
        wanted = [(item, item.current()) for item in self._replacements(**options)]
        for item, original in wanted:
            if (home := _home(original)) is not None and home not in self._homes(item):
                raise ForeignPatchError(f"{item} is no longer {self._peer.module}'s own: {home} has replaced it; undo that first")
        done = 0
        try:
            for item, _ in wanted:
                item.put(item.new)
                done += 1
        except BaseException:
            for item, original in reversed(wanted[:done]):
                item.put(original)
            raise
        return wanted

    def describe(self, options: dict[str, Any]) -> str:
        """The peer, the options and how many attributes are replaced now."""
        found = self._found()
        state = "restored" if found is None or found.options != options else f"{_count(len(found.kept))} replaced"
        return f"{self._peer.module}, {_words(options)}: {state}" if options else f"{self._peer.module}: {state}"

    def release(self, generation: Any) -> None:
        """Return one claim, and restore the peer after the last one."""
        seat = self._seat()
        if seat is None:
            return
        with seat.lock:
            found: Any = self._found()
            if found is None or found is not generation:
                return
            found.claims -= 1
            if found.claims == 0:
                self.uninstall()


class Installed:
    """A claim on replacements that are in place. As a context manager it is given back at the end."""

    def __init__(self, installation: Installation, generation: _Generation) -> None:
        self._installation = installation
        self._options = generation.options
        self._claims: list[_Generation] = [generation]
        self._entered = 0

    def __repr__(self) -> str:
        """What a notebook shows below a cell that ends with `install()`."""
        return f"<Installed in {self._installation.describe(self._options)}>"

    def __enter__(self) -> Self:
        self._entered += 1
        if self._entered > len(self._claims):
            self._claims.append(self._installation.claim(self._options))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._entered -= 1
        self._installation.release(self._claims.pop())


def _is_there(owner: Owner) -> bool:
    """Whether the peer still has this class or module, and no newer one of the same name."""
    if isinstance(owner, ModuleType):
        return sys.modules.get(owner.__name__) is owner
    if not isinstance(owner, type) or "<locals>" in owner.__qualname__:
        return True
    found: Any = sys.modules.get(owner.__module__)
    for name in owner.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is None or found is owner


def _home(value: Any) -> str | None:
    """The package in which a function or class was defined, even if `functools.wraps` gave it another name. None: unknown."""
    if value is _ABSENT:
        return None
    value = getattr(value, "__func__", value)
    value = getattr(value, "fget", value)
    names = getattr(value, "__globals__", None)
    home = names.get("__name__") if isinstance(names, dict) else getattr(value, "__module__", None)
    return home.partition(".")[0] if isinstance(home, str) else None


def _count(attributes: int) -> str:
    return "1 attribute" if attributes == 1 else f"{attributes} attributes"


def _words(options: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items()) or "no options"
