"""Sealed outputs whose process has died, in a folder where somebody has moved, changed or linked files."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path
from typing import Any, ClassVar

from dpcore import Privacy
from dpcore._disk.sealed_files import SealedFile, content_digest, folder_digest
from dpcore.accounting import Ledger
from dpcore.errors import DpcoreError
from fuzz.choices import Choices
from fuzz.target import FoundError, Target

CONTENT, OTHER, EARLIER = b"what was sealed", b"of somebody else", b"of an earlier run"
NAMES = ("table.csv", "table.csv.dpcore.json")
FOLDER = "shards"


class SealedRuns(Target):
    """A script of what happens to the files of a run that was sealed."""

    name: ClassVar[str] = "sealed"
    promise: ClassVar[str] = (
        "a run counts as published if each name has the sealed content; no other file is changed, through links neither"
    )
    errors: ClassVar[tuple[type[Exception], ...]] = (DpcoreError, OSError)
    longest: ClassVar[int] = 64

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "out").mkdir()
        self._ledgers = [
            self._sealed(overwrite=overwrite, is_folder=is_folder) for overwrite in (False, True) for is_folder in (False, True)
        ]

    def _sealed(self, *, overwrite: bool, is_folder: bool) -> tuple[bytes, list[SealedFile], bool]:
        """A ledger with one sealed run, as its process leaves it; over files of an earlier run, or where there are none."""
        out = self.folder / "out"
        ledger = Ledger.create(self.folder / "base", epsilon=10.0)
        reservation = ledger.spend(Privacy(1.0), what="a table", run="run")
        files = [_folder_of(out)] if is_folder else [_file(out, name) for name in NAMES]
        if overwrite:
            self._put_earlier(files)
        reservation.seal(files, overwrite=overwrite)
        content = (self.folder / "base").read_bytes()
        (self.folder / "base").unlink()
        self._empty()
        return content, files, overwrite

    def _put_earlier(self, files: list[SealedFile]) -> None:
        """Give files of an earlier run their names, by a second name: what replaces one knows it by its number."""
        for file in files:
            if file.path.name == FOLDER:
                _write(file.path)
                continue
            kept = self.folder / f"earlier {file.path.name}"
            if not kept.exists():
                kept.write_bytes(EARLIER)
            os.link(kept, file.path)

    def _empty(self) -> None:
        for path in (self.folder / "out").iterdir():
            _remove(path)

    def is_watched(self, path: Path) -> bool:
        return path.parts[0] not in {"ledger", "out"} and not path.name.startswith("ledger")

    def run(self, data: bytes) -> None:
        script = Choices(data)
        content, files, overwrite = script.of(self._ledgers)
        (self.folder / "ledger").write_bytes(content)
        outside = self.folder / "outside"
        outside.write_bytes(OTHER)
        for file in files:
            _write(file.temporary)
        if overwrite:
            self._put_earlier(files)
        try:
            for _ in range(4):
                if script.is_over:
                    break
                self._happens(script.of(files), outside, script)
            self._complete(files, outside)
        finally:
            outside.unlink(missing_ok=True)
            self._empty()

    def _happens(self, file: SealedFile, outside: Path, script: Choices) -> None:  # noqa: C901  # a list of cases
        """One thing that happens to a name: to the temporary one, or to the final one."""
        path = script.of((file.temporary, file.path))
        what = script.below(12)
        if what < 9:
            _remove(path)
        match what:
            case 0:
                path.write_bytes(script.of((CONTENT, OTHER, b"", CONTENT + b"x")))
            case 1:
                _write(path, is_folder=True)
            case 2:
                path.symlink_to(script.of((outside, file.temporary, file.path, path, self.folder / "nowhere")))
            case 3:
                path.mkdir()
            case 4:
                os.mkfifo(path)
            case 5:
                with contextlib.suppress(OSError):
                    os.link(script.of((outside, file.temporary, file.path)), path)
            case 6:
                with contextlib.suppress(OSError):
                    script.of((file.temporary, file.path)).rename(path)
            case 9:
                with contextlib.suppress(OSError):
                    path.chmod(script.of((0o000, 0o444, 0o600)))
            case 10:
                if path.is_dir() and not path.is_symlink():
                    (path / script.of(("part", "other"))).write_bytes(script.of((CONTENT, OTHER)))
            case 11:
                if path.is_dir() and not path.is_symlink():
                    with contextlib.suppress(OSError):
                        (path / "link").symlink_to(outside)

    def _complete(self, files: list[SealedFile], outside: Path) -> None:
        """Let another process complete the run, twice; then give it up."""
        before = {file.path: _look(file.path) for file in files}
        ledger = Ledger(self.folder / "ledger", timeout=0.05)
        ledger.complete()
        self._check(ledger, files, outside, before)
        Ledger(self.folder / "ledger").check_writable()
        self._check(ledger, files, outside, before)
        with contextlib.suppress(DpcoreError):
            ledger.abandon(1)

    def _check(self, ledger: Ledger, files: list[SealedFile], outside: Path, before: dict[Any, Any]) -> None:
        (entry,) = ledger.entries()
        if ledger.spent.epsilon != 1.0:
            raise FoundError(f"{ledger.spent} is spent of a run that costs 1")
        if any(path.read_bytes() != EARLIER for path in self.folder.glob("earlier *")):
            raise FoundError("a file was written into, where its name should have been given to another")
        if outside.read_bytes() != OTHER:
            raise FoundError("a file outside of the outputs was changed")
        if entry.state in {"published", "done"}:
            for file in files:
                if content_digest(file.path) != file.sha256:
                    raise FoundError(f"the run is {entry.state}, and {file.path.name} has another content")
            return
        for path, was in before.items():
            if _look(path) != was:
                raise FoundError(f"the run is {entry.state}, and {path.name} was {was} and is {_look(path)}")


def _file(folder: Path, name: str) -> SealedFile:
    return SealedFile(folder / f".{name}.1.{'0' * 16}.tmp", folder / name, hashlib.sha256(CONTENT).hexdigest())


def _folder_of(folder: Path) -> SealedFile:
    return SealedFile(folder / f".{FOLDER}.1.{'0' * 16}.tmp", folder / FOLDER, folder_digest({"part": hashlib.sha256(CONTENT).hexdigest()}))


def _write(path: Path, *, is_folder: bool | None = None) -> None:
    """What a run seals."""
    if FOLDER in path.name if is_folder is None else is_folder:
        path.mkdir()
        (path / "part").write_bytes(CONTENT)
    else:
        path.write_bytes(CONTENT)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.chmod(0o700)
        for each in path.iterdir():
            _remove(each)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _look(path: Path) -> object:
    """What is there under a name."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink():
        return path.readlink()
    if path.is_dir():
        return sorted(each.name for each in path.iterdir())
    return path.read_bytes() if path.is_file() else "neither a file nor a folder"
