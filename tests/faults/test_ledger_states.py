"""The life of a spend: the table of its states, and how sealed files get their names."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import get_args

import pytest

pytest.importorskip("fcntl", reason="locks of POSIX")

from dpcore import Privacy
from dpcore._disk.sealed_files import SealedFile, move_into_place, sync_folder
from dpcore.accounting import Ledger
from dpcore.accounting.ledger.states import Event, State
from dpcore.errors import ParameterError, ParameterTypeError
from support.crashes import sealed

# What the documentation's table says, read by nobody but this test.
ALLOWED = {
    "reserved": {"seal": "sealed", "finish": "done", "fail": "failed"},
    "sealed": {"publish": "published", "fail": "failed"},
    "published": {"publish": "published", "finish": "done"},
    "done": {"publish": "done", "finish": "done"},
    "failed": {"fail": "failed"},
}
WAY = {"reserved": "", "sealed": "seal", "published": "seal publish", "done": "finish", "failed": "fail"}


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", epsilon=1.0)


def happen(reservation, event, folder):
    if event == "seal":
        reservation.seal([sealed(folder, "out", b"x")])
    elif event == "fail":
        reservation.failed("storage")
    else:
        {"publish": reservation.published, "finish": reservation.done}[event]()


@pytest.mark.parametrize("event", get_args(Event))
@pytest.mark.parametrize("state", get_args(State))
def test_every_event_in_every_state(ledger, tmp_path, state, event):
    reservation = ledger.spend(Privacy(0.25), what="x")
    for step in WAY[state].split():
        happen(reservation, step, tmp_path)
    assert [entry.state for entry in ledger.entries()] == [state]
    expected = ALLOWED[state].get(event)
    if expected is None:
        with pytest.raises(ParameterError, match=f"a spend that is '{state}' cannot {event}"):
            happen(reservation, event, tmp_path)
    else:
        happen(reservation, event, tmp_path)
    (entry,) = ledger.entries()
    assert entry.state == (expected or state)
    assert (entry.reason is None) == (entry.state != "failed")
    assert ledger.spent.epsilon == 0.25


def test_a_block_that_leaves_by_an_exception_after_sealing_stays_sealed(ledger, tmp_path):
    def interrupted():
        with ledger.spend(Privacy(0.25), what="x") as reservation:
            reservation.seal([sealed(tmp_path, "out", b"x")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [entry.state for entry in ledger.entries()] == ["sealed"]


def test_what_cannot_be_sealed_is_refused(ledger, tmp_path):
    good = sealed(tmp_path, "out", b"x")
    reservation = ledger.spend(Privacy(0.25), what="x")
    for files in ([], [good, "out"], None):
        with pytest.raises((ParameterTypeError, TypeError)):
            reservation.seal(files)
    for change in (
        {"temporary": Path("relative")},
        {"path": tmp_path / "elsewhere" / "out"},
        {"path": good.temporary},
        {"sha256": "x"},
        {"sha256": good.sha256.upper()},
    ):
        with pytest.raises(ParameterError):
            SealedFile(**({"temporary": good.temporary, "path": good.path, "sha256": good.sha256} | change))
    with pytest.raises(ParameterTypeError):
        SealedFile(str(good.temporary), good.path, good.sha256)
    assert [entry.state for entry in ledger.entries()] == ["reserved"]


# Moves


def test_a_move_never_takes_the_name_of_another_file(tmp_path):
    file = sealed(tmp_path, "out", b"new")
    file.temporary.write_bytes(b"new")
    for stand in ("file", "link", "folder"):
        match stand:
            case "file":
                file.path.write_bytes(b"old")
            case "link":
                file.path.symlink_to("nowhere")
            case "folder":
                file.path.mkdir()
        with pytest.raises(FileExistsError):
            move_into_place(file, overwrite=False)
        assert file.temporary.read_bytes() == b"new"
        file.path.rmdir() if stand == "folder" else file.path.unlink()
    move_into_place(file, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert file.path.read_bytes() == b"new"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_move_that_was_made_already_has_nothing_left_to_do(tmp_path, overwrite):
    file = sealed(tmp_path, "out", b"new")
    file.path.write_bytes(b"new")
    move_into_place(file, overwrite=overwrite)
    assert file.path.read_bytes() == b"new"
    file.path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError):
        move_into_place(file, overwrite=overwrite)
    assert file.path.read_bytes() == b"old"


def test_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(1, "no links")

    monkeypatch.setattr(os, "link", refuse)
    file = sealed(tmp_path, "out", b"new")
    file.temporary.write_bytes(b"new")
    file.path.write_bytes(b"old")
    with pytest.raises(FileExistsError):
        move_into_place(file, overwrite=False)
    file.path.unlink()
    move_into_place(file, overwrite=False)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EOPNOTSUPP, errno.EIO, errno.ENOSPC])
def test_a_folder_that_cannot_be_synced_is_no_error_and_one_that_fails_is(tmp_path, monkeypatch, code):
    def refuse(_):
        raise OSError(code, "fsync")

    monkeypatch.setattr(os, "fsync", refuse)
    if code in (errno.EINVAL, errno.EOPNOTSUPP):
        sync_folder(tmp_path)
    else:
        with pytest.raises(OSError, match="fsync"):
            sync_folder(tmp_path)
