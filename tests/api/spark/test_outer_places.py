"""Folders that Hadoop renames, on a file system that only has names, and that fails, is slow and is shared as HDFS is."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dpcore.errors import JobError, PublishedError, StorageError
from dpcore.spark.committed import _Writing
from dpcore.spark.outer_places import Address, LoggedTable
from dpcore.testing import KeyedJobKey

NEW, OLD, OTHER = "new", "old", "another job's"


class Name:
    """A path of Hadoop."""

    def __init__(self, *parts):
        self.text = "/".join(map(str, parts))

    def __str__(self):
        return self.text

    def toString(self):
        return self.text

    def getParent(self):
        return Name(self.text.rpartition("/")[0])

    def getName(self):
        return self.text.rpartition("/")[2]

    def getFileSystem(self, _):
        return FILES[0]


class Files:
    """Folders by name. The rename into a folder that exists moves below it, as on HDFS."""

    def __init__(self, **found):
        self.found = {f"hdfs://h/{name}": content for name, content in found.items()}
        self.refused, self.broken, self.before_rename = [], [], lambda: None

    def exists(self, path):
        return str(path) in self.found

    def rename(self, source, target):
        self.before_rename()
        if any(word in str(source) for word in self.refused):
            return False
        there = f"{target}/{source.getName()}" if self.exists(target) else str(target)
        self.found[there] = self.found.pop(str(source))
        if any(word in str(source) for word in self.broken):
            raise OSError("the answer was lost")
        return True

    def delete(self, path, _):
        if any(word in str(path) for word in self.refused):
            return False
        return self.found.pop(str(path), None) is not None


FILES: list[Files] = []


def address(files, *, overwrite=False, renames=True):
    FILES[:] = [files]
    java = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace(Path=Name)))))
    session = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=java, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None)))
    return Address(session, SimpleNamespace(path="hdfs://h/out", overwrite=overwrite), renames=renames)


def written(files, **said):
    place = address(files, **said)
    place.check()
    place.write(SimpleNamespace(save=lambda name: files.found.update({name: NEW})))
    return place


def test_an_output_gets_its_name_and_replaces_what_it_may():
    for files, overwrite in ((Files(), False), (Files(out=OLD), True)):
        place = written(files, overwrite=overwrite)
        assert not place.is_shown
        place.show()
        assert place.is_shown
        assert files.found == {"hdfs://h/out": NEW}
    with pytest.raises(JobError, match="exists"):
        written(Files(out=OLD))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("overwrite", [False, True])
def test_the_output_of_another_job_that_has_appeared_stays(late, overwrite):
    """Also one that appears between the last look and the rename."""
    files = Files()
    place = written(files, overwrite=overwrite)
    if late:
        files.before_rename = lambda: files.found.setdefault("hdfs://h/out", OTHER)
    else:
        files.found["hdfs://h/out"] = OTHER
    if overwrite and not late:
        place.show()
        assert files.found == {"hdfs://h/out": NEW}
        return
    with pytest.raises(StorageError, match=r"has appeared.*nothing was published"):
        place.show()
    place.drop()
    assert not place.is_shown
    assert files.found == {"hdfs://h/out": OTHER}


@pytest.mark.parametrize(("refused", "words"), [("h/out", "could not be replaced, and stays"), (".tmp", "the earlier output is as before")])
def test_without_a_rename_the_earlier_output_stays_or_comes_back(refused, words):
    files = Files(out=OLD)
    place = written(files, overwrite=True)
    files.refused = [refused]
    with pytest.raises(StorageError, match=words):
        place.show()
    files.refused = []
    place.drop()
    assert not place.is_shown
    assert files.found == {"hdfs://h/out": OLD}


def test_an_earlier_output_that_does_not_come_back_is_named():
    files = Files(out=OLD)
    place = written(files, overwrite=True)
    files.refused = [".tmp", ".old"]
    with pytest.raises(StorageError, match=r"nothing was published; the earlier output is hdfs://h/\.out\..*\.old"):
        place.show()


def test_a_rename_whose_answer_is_lost_has_happened():
    files = Files(out=OLD)
    place = written(files, overwrite=True)
    files.broken = [".tmp"]
    place.show()
    assert files.found == {"hdfs://h/out": NEW}


def test_an_earlier_output_that_cannot_be_removed_is_said_after_the_new_one_is_shown():
    files = Files(out=OLD)
    place = written(files, overwrite=True)
    files.refused = [".old"]
    with pytest.raises(StorageError, match="could not be removed"):
        place.show()
    assert place.is_shown
    assert files.found["hdfs://h/out"] == NEW


@pytest.fixture
def run(monkeypatch):
    """A write to a place, of a plan that reads nothing; returns what the ledger was told."""

    def write(place, *, changes=False, fails=False):
        said = []

        def check(_, *, is_shown):
            if changes:
                raise StorageError("shown" if is_shown else "nothing was published")

        def work(_, act):
            if fails:
                raise StorageError("a task failed")
            act(None)

        charge = SimpleNamespace(reserve=lambda _: said.append("reserved"), done=lambda: said.append("done"), failed=said.append, entry=1)
        for name, value in (
            ("charged", lambda *_, **__: charge),
            ("check_workers", lambda _: None),
            ("pinned", lambda _: SimpleNamespace(check=check)),
        ):
            monkeypatch.setattr(f"dpcore.spark.committed.{name}", value)
        plan = SimpleNamespace(session=None, frame=None, key=lambda: KeyedJobKey(bytes(32)))
        job = SimpleNamespace(total=None, secure=True)
        writing = _Writing(plan, SimpleNamespace(job=job, path="hdfs://h/out"), None, None)
        monkeypatch.setattr(writing, "_run", work)
        monkeypatch.setattr(writing, "_writer", lambda _: SimpleNamespace(save=lambda name: FILES[0].found.update({name: NEW})))
        try:
            writing.to_place(place)
        except Exception as error:
            return said, error
        return said, None

    return write


@pytest.mark.parametrize("renames", [False, True])
def test_no_error_says_that_nothing_was_published_when_it_was(run, renames):
    files = Files()
    said, error = run(address(files, renames=renames), changes=True)
    if renames:
        assert isinstance(error, StorageError)
        assert (said, files.found) == (["reserved", "storage"], {})
        return
    assert isinstance(error, PublishedError)
    assert str(error.__cause__) == "shown"
    assert (said, files.found) == (["reserved", "done"], {"hdfs://h/out": NEW})


def test_a_job_that_fails_before_that_leaves_nothing(run):
    files = Files()
    said, error = run(address(files), fails=True)
    assert "a task failed" in str(error)
    assert (said, files.found) == (["reserved", "storage"], {})
    assert run(address(files)) == (["reserved", "done"], None)
    assert files.found == {"hdfs://h/out": NEW}


def test_only_table_names_tables():
    """A path without a slash is a folder of this machine."""
    found = []
    writer = SimpleNamespace(saveAsTable=lambda name: found.append(("table", name)), save=lambda name: found.append(("folder", name)))
    for path in ("out", "s3a://b/out", "table:lake.out"):
        LoggedTable(None, SimpleNamespace(path=path, overwrite=False)).write(writer)
    assert [kind for kind, _ in found] == ["folder", "folder", "table"]
    assert [name.startswith("file:/") for _, name in found] == [True, False, False]
    assert found[2][1] == "lake.out"
    with pytest.raises(JobError, match="the name of a table"):
        LoggedTable(None, SimpleNamespace(path="table:a b", overwrite=False))
