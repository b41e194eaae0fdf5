"""Key files: who may read them, what may stand in their place, and a run that is killed at any step and run again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")

from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan, release
from dpcore.errors import JobError, StorageError
from dpcore.query.run import run as run_plan
from dpcore.tables.output.key_file import KeyFile
from support.commits import MAGIC, Kept, commitment, parts_of, small_job
from support.jobs import edit, write_table
from support.releases import clinic
from support.steps import Steps

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights, links, signals and locks of POSIX are the subject")
COUNT = {"n": {"kind": "count", "column": "visits", "lower": 0, "upper": 100}}


@pytest.fixture
def place(tmp_path, capsys):
    return Kept(tmp_path, capsys)


@pytest.fixture
def committed(place):
    small_job(place, queries=COUNT)
    done = place.commit()
    assert done.code == 0, done.err
    return place


# Rights


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
@pytest.mark.parametrize("options", [(), ("--commit-only",)])
def test_only_the_owner_reads_it(place, umask, options):
    small_job(place, queries=COUNT)
    before = os.umask(umask)
    try:
        assert place.commit(*options).code == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.key.parent.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("rights", [0o644, 0o640, 0o604, 0o660, 0o601])
def test_one_that_others_may_read_is_refused(committed, rights):
    committed.key.chmod(rights)
    done = committed.verify()
    assert done.code == 2
    assert f"has the rights {rights:04o}: others may read it" in done.err
    committed.target.unlink()
    assert "others may read it" in committed.commit().err
    committed.key.chmod(0o600)
    assert committed.commit().code == 0


# What may stand in its place


def test_one_that_is_missing(committed):
    committed.key.unlink()
    done = committed.verify()
    assert done.code == 4
    assert "no such file; without it nobody can tell" in done.err


@pytest.mark.parametrize("content", [b"x", b"secret" * 100, b'{"what": "the key of one release"}', MAGIC[:-1] + b"2" + bytes(100)])
@pytest.mark.parametrize("options", [(), ("--commit-only",)])
def test_a_file_that_is_there_is_never_replaced(place, content, options):
    small_job(place, queries=COUNT)
    place.key.parent.mkdir()
    place.key.write_bytes(content)
    place.key.chmod(0o600)
    done = place.commit(*options)
    assert done.code == 2
    assert "is no key file" in done.err
    assert place.key.read_bytes() == content
    assert not place.target.exists()


def test_links_and_folders_are_refused(committed):
    elsewhere = committed.folder / "elsewhere.key"
    committed.key.rename(elsewhere)
    committed.key.symlink_to(elsewhere)
    assert "is a symbolic link" in committed.verify().err
    committed.key.unlink()
    committed.key.symlink_to(committed.folder / "gone.key")
    committed.target.unlink()
    assert "is a symbolic link" in committed.commit().err
    assert not (committed.folder / "gone.key").exists()
    committed.key.unlink()
    os.link(elsewhere, committed.key)
    assert "has another name (a hard link)" in committed.commit().err
    committed.key.unlink()
    committed.key.mkdir()
    assert committed.commit().code in (2, 4)
    committed.key.rmdir()
    os.mkfifo(committed.key, 0o600)
    assert "is no regular file" in committed.commit().err


def test_the_key_of_another_run_is_refused(committed):
    edit(committed, "answers.json", "others.json")
    done = committed.commit()
    assert done.code == 2
    assert "is the key of another run" in done.err
    edit(committed, "others.json", "answers.json")
    edit(committed, "upper = 100", "upper = 99")
    assert "is the key of another run" in committed.commit().err


def test_a_key_of_other_code_is_refused(committed, monkeypatch):
    from dpcore.query import commitments

    committed.target.unlink()
    monkeypatch.setattr(commitments, "code_digest", lambda: "f" * 64)
    done = committed.commit()
    assert done.code == 2
    assert "the same key could give other answers" in done.err
    assert not committed.target.exists()


@pytest.mark.parametrize("size", [0, 5, 18, 40, 82, 83, 200])
def test_one_that_was_cut_is_refused(committed, size):
    content = committed.key.read_bytes()[:size]
    committed.key.write_bytes(content)
    done = committed.verify()
    assert done.code == 4
    assert "is not complete" in done.err
    committed.target.unlink()
    assert committed.commit().code == 4
    assert committed.key.read_bytes() == content


def test_one_that_was_edited_is_refused(committed):
    content = committed.key.read_bytes()
    for wrong in (b"\nnot json\n", b"\n[]\n", b'\n{"what": "x"}\n'):
        committed.key.write_bytes(content[:82] + wrong)
        assert committed.verify().code in (2, 4)
        assert "Traceback" not in committed.verify().err


def test_one_that_another_run_uses(committed):
    import fcntl

    committed.target.unlink()
    with committed.key.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = committed.commit()
    assert done.code == 4
    assert "another run is using" in done.err
    assert committed.commit().code == 0


def test_one_that_appears_after_the_plan(place):
    small_job(place, queries=COUNT)
    plan = make_release_plan(load_release_job(place.job), commit=place.key)
    place.key.parent.mkdir()
    place.key.write_bytes(b"x")
    with pytest.raises(StorageError, match="exists by now"):
        run_plan(plan)
    assert place.key.read_bytes() == b"x"
    assert not place.target.exists()


def test_one_that_changes_after_the_plan(committed):
    committed.target.unlink()
    plan = make_release_plan(load_release_job(committed.job), commit=committed.key)
    content = committed.key.read_bytes()
    committed.key.write_bytes(content[:20] + bytes([content[20] ^ 1]) + content[21:])
    with pytest.raises(StorageError, match="has changed since the job was planned"):
        run_plan(plan)


def test_a_disk_that_is_full_leaves_no_part_of_it(place, monkeypatch):
    small_job(place, queries=COUNT)
    write = os.write

    def full(descriptor, content):
        if len(content) == 32:
            raise OSError(28, "No space left on device")
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", full)
    done = place.commit()
    monkeypatch.undo()
    assert done.code == 4
    assert "cannot be written: No space left on device" in done.err
    assert not place.key.exists()
    assert not place.target.exists()
    assert place.commit().code == 0


def test_writes_in_parts(place, monkeypatch):
    """A system may take fewer bytes than it is given."""
    small_job(place, queries=COUNT)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:7]))
    done = place.commit()
    monkeypatch.undo()
    assert done.code == 0, done.err
    assert place.verdict() == []


# Again


def test_the_same_input_gives_the_same_answers_and_another_one_is_refused(committed):
    """A run id never has two noises, and a noise never two inputs."""
    before, content = committed.document, committed.key.read_bytes()
    committed.target.unlink()
    assert committed.commit().code == 0
    again = committed.document
    assert again["queries"] == before["queries"]
    assert committed.key.read_bytes() == content
    committed.target.unlink()
    write_table(clinic(121), committed.source)
    done = committed.commit()
    assert done.code == 4
    assert "the same key must not make noise for two inputs" in done.err
    assert not committed.target.exists()


def test_the_public_randomness_cannot_be_changed(place):
    small_job(place, queries=COUNT)
    assert place.commit("--commit-only").code == 0
    assert place.commit("--public-randomness", "ab" * 16).code == 0
    place.target.unlink()
    done = place.commit("--public-randomness", "cd" * 16)
    assert done.code == 4
    assert "--public-randomness is not what" in done.err
    assert place.commit("--public-randomness", "ab" * 16).code == 0


def test_a_ledger_refuses_a_second_key_of_a_run(place):
    Ledger.create(place.folder / "budget.ledger", epsilon=10.0)
    small_job(place, queries=COUNT, ledger=place.folder / "budget.ledger")
    assert place.commit().code == 0
    document, entries = place.document, list(Ledger(place.folder / "budget.ledger").entries())
    assert [entry.commitment for entry in entries] == [document["commitment"]["hmac_sha256"]]
    shown = json.loads(place.dpcore("ledger", "show", place.folder / "budget.ledger", "--json").out)
    assert shown["entries"][0]["commitment"] == document["commitment"]["hmac_sha256"]
    # The same run again: nothing is read or spent.
    done = place.commit()
    assert done.code == 0
    assert "already published" in done.err
    # With another key, or none that is left.
    place.key = place.key.with_name("second.key")
    done = place.commit()
    assert done.code == 2
    assert "a run never has two different noises" in done.err
    assert not place.key.exists()
    # Without a key, as a new run that spends again.
    done = place.release("--overwrite")
    assert done.code == 2
    assert "no commitment is given" in done.err
    assert len(list(Ledger(place.folder / "budget.ledger").entries())) == 1


def test_a_run_that_was_published_without_a_key_cannot_get_one(place):
    Ledger.create(place.folder / "budget.ledger", epsilon=10.0)
    small_job(place, queries=COUNT, ledger=place.folder / "budget.ledger")
    assert place.release().code == 0
    done = place.commit()
    assert done.code == 2
    assert "has published it without a key file" in done.err
    assert not place.key.exists()


def test_a_budget_that_does_not_suffice_leaves_no_key(place):
    Ledger.create(place.folder / "budget.ledger", epsilon=0.5)
    small_job(place, queries=COUNT, ledger=place.folder / "budget.ledger")
    assert place.commit().code == 2
    assert not place.key.exists()


# Killed


@pytest.fixture(scope="module")
def steps():
    warm = Steps()
    yield warm
    warm.close()


class Killed:
    """A job, and its run that is killed at some step and run again."""

    def __init__(self, folder: Path, *, deposited: bool = False) -> None:
        self.place = Kept(folder, None)
        self.budget = folder / "budget.ledger"
        self.deposited = deposited
        self.begin()

    def begin(self) -> None:
        """Make the folder anew."""
        folder = self.place.folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        Ledger.create(self.budget, epsilon=100.0)
        small_job(self.place, rows=40, queries=COUNT, ledger=self.budget)
        if self.deposited:
            from dpcore.batch import deposit

            deposit(load_release_job(self.place.job), self.place.key)

    @property
    def arguments(self) -> list[object]:
        randomness = ["--public-randomness", "ab" * 16] if self.deposited else []
        return ["release", self.place.job, "--commit", self.place.key, *randomness]

    def check(self, steps: Steps, step: int) -> bool:
        """Kill it, and run it again until it is published; whether there was such a step."""
        code, _, said = steps.run(*self.arguments, step=step)
        assert code in (-signal.SIGKILL, 0), said
        known = None
        if self.place.key.exists():
            try:
                known = KeyFile(self.place.key).read()
            except (StorageError, JobError):  # what was killed while it made the file
                assert list(Ledger(self.budget).entries()) == [], "a charge without its key"
                self.place.key.unlink()
        spent = list(Ledger(self.budget).entries())
        assert not spent or (known is not None and known.begun is not None), "what the key was used for is known before the charge"
        code, _, said = steps.run(*self.arguments)
        assert code == 0, said
        document = self.place.document
        key, blinder, line, _ = parts_of(self.place.key)
        assert document["commitment"]["hmac_sha256"] == commitment(key, blinder, line)
        if known is not None:
            assert line == known.line, "a second key of one run"
        entries = list(Ledger(self.budget).entries())
        assert {entry.commitment for entry in entries} == {document["commitment"]["hmac_sha256"]}
        assert len(entries) <= 2
        assert [entry.state for entry in entries][-1] == "done"
        from dpcore.batch import verify

        assert verify(self.place.target, self.place.key).mismatches == ()
        return bool(code == 0 and step)


def answers_of(place: Kept) -> list[object]:
    return [query["value"] for query in place.document["queries"]]


@pytest.fixture
def folder(tmp_path):
    """In memory where that is possible: what is tested is the order of steps, not the disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path / "job"
        return
    with tempfile.TemporaryDirectory(dir=memory, prefix="dpcore-") as name:
        yield Path(name) / "job"


def count_of(steps, job):
    code, count, said = steps.run(*job.arguments)
    assert code == 0, said
    return count


@pytest.mark.parametrize("deposited", [False, True])
def test_a_run_that_is_killed_at_some_steps(steps, folder, deposited):
    job = Killed(folder, deposited=deposited)
    count = count_of(steps, job)
    assert count > 20
    for step in range(2, count, max(count // 6, 1)):
        job.begin()
        job.check(steps, step)


def test_a_run_that_is_killed_before_it_says_that_it_is_done(steps, folder):
    """Its output is there, so that the second run only finishes the entry of the ledger."""
    job = Killed(folder)
    states = []
    for step in range(count_of(steps, job), 0, -1):
        job.begin()
        steps.run(*job.arguments, step=step)
        states += [entry.state for entry in Ledger(job.budget).entries()]
        code, _, said = steps.run(*job.arguments)
        assert (code, [entry.state for entry in Ledger(job.budget).entries()]) == (0, ["done"]), said
        if states[-1] == "sealed":
            break
    assert set(states) == {"done", "published", "sealed"}


@pytest.mark.long
@pytest.mark.parametrize("deposited", [False, True])
def test_a_run_that_is_killed_at_every_step(steps, folder, deposited):
    job = Killed(folder, deposited=deposited)
    for step in range(1, count_of(steps, job) + 1):
        job.begin()
        job.check(steps, step)


def test_a_killed_run_and_its_second_one_have_the_same_answers(steps, folder):
    """Killed after its answers were sealed or not, under one key there is one document."""
    job = Killed(folder)
    count = count_of(steps, job)
    key = job.place.key.read_bytes()
    wanted = answers_of(job.place)
    for step in (count // 2, count - 3):
        job.begin()
        job.place.key.parent.mkdir(exist_ok=True)
        job.place.key.write_bytes(key)
        job.place.key.chmod(0o600)
        steps.run(*job.arguments, step=step)
        code, _, said = steps.run(*job.arguments)
        assert code == 0, said
        assert answers_of(job.place) == wanted


def test_a_torn_note_is_written_again(committed):
    content = committed.key.read_bytes()
    head = content[: content.rindex(b"\n", 0, -1) + 1]
    committed.key.write_bytes(head + b'{"inputs": {"in')
    committed.target.unlink()
    assert committed.commit().code == 0
    assert committed.key.read_bytes() == content


def test_a_key_file_as_an_object(tmp_path):
    with pytest.raises(JobError, match="addresses are not supported"):
        KeyFile("s3://bucket/key")
    assert KeyFile(tmp_path / "none").read() is None
    assert str(KeyFile("x", "--key")) == "--key 'x'"


def test_released_in_python(place):
    small_job(place, queries=COUNT)
    document = release(make_release_plan(load_release_job(place.job), commit=str(place.key)))
    assert document == place.document
