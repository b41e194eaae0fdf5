"""Folders as outputs: sealed as a whole, published by any process, replaced as a whole, and removed if their process died."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpcore._disk.files import AtomicFolder, remove_stale
from dpcore._disk.sealed_files import SealedFile, content_digest, finish, folder_digest, identity, move_into_place
from dpcore.errors import StorageError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="a folder cannot be locked there")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def sealed(path: Path, **files: bytes) -> tuple[AtomicFolder, SealedFile]:
    folder = AtomicFolder(path)
    for name, content in files.items():
        (folder.temporary / name).write_bytes(content)
    return folder, folder.seal({name: digest(content) for name, content in files.items()})


def content(path: Path) -> dict[str, bytes]:
    return {entry.name: entry.read_bytes() for entry in path.iterdir()}


def test_a_sealed_folder_is_published_by_another_process_once_its_own_is_gone(tmp_path):
    folder, file = sealed(tmp_path / "out", a=b"1", b=b"2")
    assert not finish([file], [None], overwrite=False)  # its process runs
    folder.release()
    for _ in range(2):
        assert finish([file], [None], overwrite=False)
        assert content(tmp_path / "out") == {"a": b"1", "b": b"2"}
        assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("change", ["another content", "a file less", "a file more", "a folder more"])
def test_a_folder_that_is_not_what_was_sealed_is_not_published(tmp_path, change):
    folder, file = sealed(tmp_path / "out", a=b"1", b=b"2")
    folder.release()
    match change:
        case "another content":
            (file.temporary / "a").write_bytes(b"3")
        case "a file less":
            (file.temporary / "b").unlink()
        case "a file more":
            (file.temporary / "c").write_bytes(b"")
        case _:
            (file.temporary / "c").mkdir()
    assert not finish([file], [None], overwrite=False)
    assert not (tmp_path / "out").exists()


def test_a_folder_is_replaced_as_a_whole_and_only_if_it_is_the_one_that_was_there(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "old").write_bytes(b"old")
    before = identity(out)
    folder, file = sealed(out, new=b"new")
    folder.release()
    assert not finish([file], [before], overwrite=False)
    assert not finish([file], ["another"], overwrite=True)
    assert content(out) == {"old": b"old"}
    assert finish([file], [before], overwrite=True)
    assert content(out) == {"new": b"new"}
    other, again = sealed(out, newer=b"newer")
    with pytest.raises(FileExistsError):
        move_into_place(again, overwrite=False)
    move_into_place(again, overwrite=True)
    other.release()
    assert content(out) == {"newer": b"newer"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_folder_with_other_files_than_its_attempts_said_is_not_sealed(tmp_path):
    folder = AtomicFolder(tmp_path / "out")
    (folder.temporary / "a").write_bytes(b"1")
    with pytest.raises(StorageError, match="missing, or there is another"):
        folder.seal({"a": digest(b"1"), "b": digest(b"2")})
    folder.abort()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_processes_that_died_are_removed_and_others_stay(tmp_path):
    made = "AtomicFolder(Path(sys.argv[1])); os._exit(1)"
    program = f"import os, sys; from pathlib import Path; from dpcore._disk.files import AtomicFolder; {made}"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "out")], check=False)
    running = AtomicFolder(tmp_path / "out")
    assert len(list(tmp_path.iterdir())) == 4
    assert len(remove_stale(tmp_path / "out")) == 1
    assert sorted(tmp_path.iterdir()) == sorted([running.temporary, running.spill])
    running.abort()
    assert list(tmp_path.iterdir()) == []


def test_the_digest_of_a_folder_is_that_of_its_listing(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b").write_bytes(b"1")
    (tmp_path / "in" / "c").write_bytes(b"2")
    assert content_digest(tmp_path / "in") == folder_digest({"c": digest(b"2"), "a b": digest(b"1")})
    assert folder_digest({"a": digest(b"1"), "b": digest(b"2")}) != folder_digest({"b": digest(b"1"), "a": digest(b"2")})
    assert content_digest(tmp_path / "none") is None
