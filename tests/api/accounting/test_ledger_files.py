"""The file behind a ledger: what it is opened from, what is refused, and that damage is noticed and loses no spend."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from dpcore import Privacy
from dpcore.accounting import Budget, Ledger
from dpcore.errors import ParameterError, ParameterTypeError

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger", epsilon=1.0, delta=1e-6)


def edit(ledger, *statements):
    with contextlib.closing(sqlite3.connect(ledger.path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# Making and opening


def test_a_ledger_is_never_overwritten(ledger):
    for path in (ledger.path, Path(__file__)):
        before = path.read_bytes()
        with pytest.raises(FileExistsError, match=r"a file of this name already; open a ledger with Ledger\(path\)"):
            Ledger.create(path, epsilon=1.0)
        assert path.read_bytes() == before


def test_opening_never_makes_one(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no ledger of this name; make one with Ledger\.create\(.*nothing"):
        Ledger(tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []  # SQLite would have made a file
    with pytest.raises(TypeError):
        Ledger(tmp_path / "nothing", Privacy(1.0))
    with pytest.raises(TypeError):
        Ledger(tmp_path / "nothing", epsilon=1.0)
    assert list(tmp_path.iterdir()) == []


def test_no_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="the folder of the ledger does not exist; make it first"):
        Ledger.create(tmp_path / "no" / "ledger", epsilon=1.0)
    with pytest.raises(IsADirectoryError):
        Ledger(tmp_path)
    with pytest.raises(IsADirectoryError):
        Ledger.create(tmp_path, epsilon=1.0)


@pytest.mark.parametrize(
    ("path", "error"), [("", ParameterError), ("a\0b", ParameterError), (3, ParameterTypeError), (b"x", ParameterTypeError)]
)
def test_paths_that_are_none(path, error):
    with pytest.raises(error, match="path must be"):
        Ledger(path)


def test_files_that_are_no_ledgers(tmp_path):
    path = tmp_path / "x"
    for content, words in ((b"", "this file is empty"), (b"epsilon,delta\n" * 500, "not an SQLite file"), (b"x", "empty or too short")):
        path.write_bytes(content)
        with pytest.raises(ParameterError, match=words):
            Ledger(path)
        assert path.read_bytes() == content
    path.unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    with pytest.raises(ParameterError, match="this SQLite database is not one"):
        Ledger(path)
    with pytest.raises(FileExistsError):
        Ledger.create(path, epsilon=1.0)


@posix
def test_pipes_and_devices_are_no_ledgers_and_nothing_hangs(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        for use in (Ledger, lambda path: Ledger.create(path, epsilon=1.0)):
            with pytest.raises(ParameterError, match="path must name a regular file"):
                use(path)


def test_an_empty_file_becomes_a_ledger(tmp_path):
    """What a process leaves that dies while it makes one."""
    (tmp_path / "x").touch()
    assert Ledger.create(tmp_path / "x", epsilon=1.0).remaining == Budget(1.0, 0.0)


def test_a_later_format_is_refused(ledger):
    edit(ledger, "PRAGMA user_version = 4")
    with pytest.raises(ParameterError, match="a ledger of format 2 or 3, but this one has format 4"):
        Ledger(ledger.path)


@posix
def test_a_file_with_two_names_is_refused(ledger, tmp_path):
    os.link(ledger.path, tmp_path / "other")
    with pytest.raises(ParameterError, match="hard link"):
        Ledger(tmp_path / "other")
    with pytest.raises(ParameterError, match="hard link"):
        ledger.spend(Privacy(0.01), what="anything")
    assert "remaining  unknown" in repr(ledger)  # a prompt shows it all the same
    (tmp_path / "other").unlink()
    ledger.spend(Privacy(0.01), what="anything")


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_names_of_journals_are_no_names_of_ledgers(tmp_path, ending):
    """SQLite removed the one ledger as a journal of the other, and with it every spend."""
    beside = tmp_path / f"ledger{ending}"
    for use in (Ledger, lambda path: Ledger.create(path, epsilon=1.0)):
        with pytest.raises(ParameterError, match="for the journals of another ledger"):
            use(beside)
    beside.write_text("a diary of somebody's")
    with pytest.raises(FileExistsError, match=f"for the journal of the new ledger and remove it.*ledger{ending}"):
        Ledger.create(tmp_path / "ledger", epsilon=1.0)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(beside.name, "a diary of somebody's")]


# One path, once


@posix
def test_a_path_is_resolved_once(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = (Ledger.create(tmp_path / name / "ledger", epsilon=1.0) for name in "ab")
    (tmp_path / "folder").symlink_to("a")
    (tmp_path / "link").symlink_to(Path("folder") / "ledger")
    monkeypatch.chdir(tmp_path)
    opened = Ledger("link")
    assert opened.path == one.path
    (tmp_path / "folder").unlink()
    (tmp_path / "folder").symlink_to("b")
    monkeypatch.chdir("/")
    opened.spend(Privacy(0.25), what="x")
    assert (one.spent.epsilon, other.spent.epsilon) == (0.25, 0.0)


@posix
def test_a_link_that_takes_the_place_of_an_open_ledger_is_not_followed(ledger, tmp_path):
    other = Ledger.create(tmp_path / "other", epsilon=1.0, delta=1e-6)
    ledger.path.rename(tmp_path / "moved")
    ledger.path.symlink_to(other.path)
    with pytest.raises(OSError, match="a link has replaced the ledger"):
        ledger.spend(Privacy(0.25), what="x")
    assert other.spent.epsilon == 0.0


@posix
def test_a_link_to_itself_ends_in_an_error(tmp_path):
    (tmp_path / "x").symlink_to("x")
    with pytest.raises(OSError, match=r"[Ss]ymbolic link|a link has replaced"):
        Ledger(tmp_path / "x")


def test_a_ledger_that_is_gone_is_not_made_again(ledger):
    ledger.path.unlink()
    with pytest.raises(FileNotFoundError, match="the ledger was removed or renamed"):
        ledger.spend(Privacy(0.1), what="x")
    assert not ledger.path.exists()


@pytest.mark.parametrize("epsilon", [1.0, 0.25, 9.0])
def test_a_file_that_takes_the_place_of_an_open_ledger(tmp_path, epsilon):
    """Even one with the same budget: what was opened decides nothing about a file that came later."""
    ledger = Ledger.create(tmp_path / "one.ledger", epsilon=1.0)
    Ledger.create(tmp_path / "other.ledger", epsilon=epsilon).path.replace(ledger.path)
    for use in (lambda: ledger.spend(Privacy(0.125), what="x"), lambda: ledger.remaining, lambda: ledger.spent):
        with pytest.raises(OSError, match="another file has replaced this ledger"):
            use()
    assert Ledger(ledger.path).remaining == Budget(epsilon, 0.0)


def test_an_older_copy_that_is_put_back_is_noticed(ledger):
    ledger.spend(Privacy(0.25), what="x")
    old = ledger.path.read_bytes()
    ledger.spend(Privacy(0.25), what="y")
    ledger.path.write_bytes(old)
    with pytest.raises(OSError, match="an older or damaged copy has replaced the ledger"):
        ledger.spend(Privacy(0.25), what="z")
    other = Ledger(ledger.path)  # which was not there before
    other.spend(Privacy(0.5), what="y'")
    with pytest.raises(OSError, match="an older or damaged copy has replaced the ledger"):
        ledger.spend(Privacy(0.25), what="z")


# Damage


@pytest.mark.parametrize(
    "change",
    [
        *(f"UPDATE spend SET epsilon = {text} WHERE id = 1" for text in ("''", "'a lot'", "'-0.5'", "'nan'", "'1/0'", "'0.01'", "NULL")),
        "UPDATE spend SET dataset = 'other' WHERE id = 2",
        "DELETE FROM spend WHERE id = 1",
        "DELETE FROM spend WHERE id = 2",
        "DELETE FROM spend",
        "UPDATE sqlite_sequence SET seq = 1",
        "DROP TABLE spend",
        "DROP TABLE ledger",
        "DELETE FROM ledger",
        *(f"UPDATE ledger SET {text}" for text in ("epsilon = '2'", "delta = '1e-5'", "relation = 'friends'", "unit = 'x'", "digest = ''")),
        "UPDATE spend SET what = CAST(x'ff' AS TEXT)",
    ],
)
def test_contents_that_nobody_wrote_are_damage(ledger, change):
    for _ in range(2):
        ledger.spend(Privacy(0.1), what="x")
    edit(ledger, change)
    uses = [lambda: Ledger(ledger.path), lambda: ledger.spend(Privacy(0.1), what="y"), lambda: ledger.spent]
    for use in uses[:1] if change.startswith("UPDATE spend") else uses:  # what an object has checked, it still counts
        with pytest.raises(OSError, match=r"damaged|taken"):
            use()


def test_an_unknown_state_is_damage(ledger):
    ledger.spend(Privacy(0.1), what="x").done()
    edit(ledger, "UPDATE spend SET state = 'refunded'")
    with pytest.raises(OSError, match="damaged"):
        list(ledger.entries())
    assert ledger.spent.epsilon == 0.1


# Journals that other programs set


def test_a_journal_of_the_write_ahead_kind_is_undone(ledger, tmp_path):
    edit(ledger, "PRAGMA journal_mode = WAL")
    spend_and_die = """
        import os, sqlite3, sys
        from dpcore import Privacy
        from dpcore.accounting import Ledger
        Ledger(sys.argv[1]).spend(Privacy(0.25), what="x")
        viewer = sqlite3.connect(sys.argv[1])  # an open connection: nobody clears a journal away
        viewer.execute("SELECT * FROM ledger").fetchall()
        Ledger(sys.argv[1]).spend(Privacy(0.25), what="y")
        os._exit(0)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(spend_and_die), str(ledger.path)], check=True, timeout=60)
    moved = ledger.path.rename(tmp_path / "elsewhere")
    assert Ledger(moved).spent == Budget(0.5, 0.0)  # all of it was in the file itself
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]


def test_a_journal_that_another_program_keeps_open_is_an_error(ledger):
    viewer = sqlite3.connect(ledger.path)
    assert viewer.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    viewer.execute("BEGIN")
    viewer.execute("SELECT * FROM ledger").fetchall()
    for use in (lambda: ledger.spend(Privacy(0.25), what="x"), lambda: ledger.spent, lambda: Ledger(ledger.path)):
        with pytest.raises(OSError, match="write-ahead log and has it open; close it there"):
            use()
    viewer.close()
    ledger.spend(Privacy(0.25), what="x")
    assert ledger.spent == Budget(0.25, 0.0)


# Locks and permissions


def test_a_lock_that_is_never_given_back_ends_in_a_timeout(ledger):
    impatient = Ledger(ledger.path, timeout=0.05)
    holder = sqlite3.connect(ledger.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    for use in (lambda: impatient.spend(Privacy(0.1), what="x"), impatient.check_writable):
        with pytest.raises(TimeoutError, match="stayed locked by another process"):
            use()
    assert impatient.remaining.epsilon == 1.0  # reading does not need that lock
    holder.close()
    impatient.check_writable()
    impatient.spend(Privacy(0.1), what="x")


def test_a_check_for_writing_spends_nothing(ledger):
    ledger.spend(Privacy(0.25), what="x")
    ledger.check_writable()
    ledger.check_writable()
    assert ledger.spent == Budget(0.25, 0.0)
    assert len(list(ledger.entries())) == 1


UNPRIVILEGED = textwrap.dedent("""
    import os, sys
    from dpcore import Privacy
    from dpcore.accounting import Ledger
    Ledger(sys.argv[1]).spent  # everything is imported while the interpreter's own files can be read
    if os.geteuid() == 0:
        os.setgroups([]); os.setgid(65534); os.setuid(65534)
    ledger = Ledger(sys.argv[1])
    print(ledger.remaining.epsilon)
    for use in (ledger.check_writable, lambda: ledger.spend(Privacy(0.1), what="x")):
        try:
            use()
        except PermissionError as error:
            print("refused:", error.strerror)
""")


@posix
@pytest.mark.parametrize("mode", [0o444, 0o666])
def test_a_ledger_that_may_be_read_only_is_read_and_not_spent_from(mode):
    """The file, or its folder. Root may write anywhere, so that the reader becomes nobody; pytest's own folders are closed to that one."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        ledger = Ledger.create(Path(folder) / "ledger", epsilon=1.0)
        ledger.path.chmod(mode)
        if os.geteuid():
            Path(folder).chmod(0o555)
        done = subprocess.run([sys.executable, "-c", UNPRIVILEGED, str(ledger.path)], capture_output=True, text=True, check=False)
        Path(folder).chmod(0o755)
    refused = "refused: the ledger or its folder cannot be written to"
    assert done.stdout.splitlines() == ["1.0", refused, refused], done.stderr


def test_a_folder_that_goes_away(tmp_path):
    (tmp_path / "folder").mkdir()
    ledger = Ledger.create(tmp_path / "folder" / "ledger", epsilon=1.0)
    (tmp_path / "folder").rename(tmp_path / "moved")
    for use in (ledger.check_writable, lambda: ledger.spend(Privacy(0.1), what="x"), lambda: ledger.spent, lambda: Ledger(ledger.path)):
        with pytest.raises(FileNotFoundError):
            use()
    assert not (tmp_path / "folder").exists()
