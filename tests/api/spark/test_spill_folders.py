"""Rows that a task cannot hold lie where only its owner reads them, and go with the task even if it was killed."""

from __future__ import annotations

import fcntl
import os

import pytest

from dpcore.spark import spill_folders
from dpcore.spark.spill_folders import PREFIX, spill_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs locks of folders")


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """Stands for shared memory."""
    folder = tmp_path / "memory"
    folder.mkdir()
    monkeypatch.setattr(spill_folders, "MEMORY", folder)
    monkeypatch.setattr(spill_folders, "ROOM", 0)
    return folder


def test_the_folder_is_private_and_goes_with_the_task(memory):
    with spill_folder() as folder:
        assert folder.parent == memory
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "spill").write_text("Ann Example")
    assert list(memory.iterdir()) == []


def test_what_a_killed_task_has_left_goes_when_the_next_begins(memory):
    folders = {name: memory / f"{PREFIX}{name}" for name in ("left", "held", "new")}
    for folder in folders.values():
        folder.mkdir()
        (folder / "spill").write_text("Ann Example")
        os.utime(folder, (0, 0))
    os.utime(folders["new"])
    held = os.open(folders["held"], os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with spill_folder():
        assert not folders["left"].exists()
        assert folders["held"].exists()
        assert folders["new"].exists()
    os.close(held)
    with spill_folder():
        assert not folders["held"].exists()


def test_without_room_in_memory_it_lies_in_the_folder_of_the_executor(memory, tmp_path, monkeypatch):
    (tmp_path / "blocks").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'gone'},{tmp_path / 'blocks'}")
    monkeypatch.setattr(spill_folders, "ROOM", 1 << 62)
    with spill_folder() as folder:
        assert folder.parent == tmp_path / "blocks"
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list((tmp_path / "blocks").iterdir()) == []
