"""What a job reads: each file once, as it was from the first byte to the last, and nothing of a header that the job does not know."""

from __future__ import annotations

import io
import itertools
import os
import shutil
import socket

import pyarrow as pa
import pytest

from dpcore.batch import StorageError, estimate
from dpcore.tables import rows, sources
from dpcore.tables.formats.delta import is_installed
from dpcore.tables.near_names import near_name, slips, suggestion
from support.jobs import COLUMNS, FORMATS, Workplace, people, read_table, write_table
from support.releases import Counter

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and files cut while open are the subject")
JOB = {"visits": COLUMNS["visits"]}
COUNT = {"all": {"kind": "sum", "column": "visits", "lower": 0, "upper": 20, "epsilon": 1.0}}


@pytest.fixture
def place(tmp_path, capsys):
    return Workplace(tmp_path, capsys)


def refused(place, *words, code=2):
    done = place.privatize()
    assert done.code == code, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert "Traceback" not in done.err
    assert place.left_behind() == []


# Once


@pytest.fixture
def folder(place):
    write_table(people(30), place.folder / "in/2024/jan.csv")
    write_table(people(20), place.folder / "in/2024/feb.csv")
    place.source = place.folder / "in"
    return place.source


@posix
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_second_name_of_a_file_is_refused(place, folder, link):
    link(folder / "2024/jan.csv", folder / "latest.csv")
    place.write_job(JOB)
    refused(place, "latest.csv and ", "2024/jan.csv are one file")


@posix
@pytest.mark.parametrize("name", ["again", "2024/up"])
def test_a_second_way_to_a_folder_is_refused(place, folder, name):
    (folder / name).symlink_to(folder / "2024" if name == "again" else folder, target_is_directory=True)
    place.write_job(JOB)
    refused(place, "are one folder, whose rows would be read twice")


@posix
def test_a_folder_behind_a_link_is_read(place, folder):
    write_table(people(7), place.folder / "elsewhere/mar.csv")
    (folder / "more").symlink_to(place.folder / "elsewhere", target_is_directory=True)
    place.write_job(JOB)
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == 57


@pytest.mark.parametrize("pattern", ["**/*.csv", "**/**/*.csv", "**/2024/**/**/*.csv"])
def test_a_pattern_finds_each_file_once(place, folder, pattern):
    place.source = folder / pattern
    place.write_job(JOB)
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == 50


@posix
def test_a_pattern_that_follows_a_link_is_refused(place, folder):
    (folder / "again").symlink_to(folder / "2024", target_is_directory=True)
    place.source = folder / "**/*.csv"
    place.write_job(JOB)
    refused(place, "are one file, whose rows would be read twice")


# Regular files of one table


@posix
@pytest.mark.parametrize("where", ["in/2024/pipe.csv", "in/only.csv"])
def test_a_pipe_is_refused_and_does_not_hang(place, folder, where):
    os.mkfifo(place.folder / where)
    place.write_job(JOB)
    refused(place, "a pipe, and a table is read from regular files only")
    place.source = place.folder / where
    place.write_job(JOB)
    refused(place, "a pipe, and a table is read from regular files only")


@posix
def test_a_pipe_in_the_place_of_categories_or_metadata_is_refused(place):
    place.source = write_table(people(5), place.folder / "in.csv")
    os.mkfifo(place.folder / "c.csv")
    few = {"mechanism": "kary", "epsilon": 1.0, "categories_file": str(place.folder / "c.csv")}
    place.write_job({"state": few})
    refused(place, "c.csv: a pipe")
    os.mkfifo(place.folder / "in.csv.dpcore.json")
    done = place.dpcore("estimate", place.source)
    assert (done.code, done.out) == (2, "")
    assert "in.csv.dpcore.json: a pipe" in done.err


@posix
def test_sockets_devices_and_links_to_nothing_are_refused(place, folder, monkeypatch):
    monkeypatch.chdir(folder)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s.csv")
        place.write_job(JOB)
        refused(place, "s.csv: a socket")
    (folder / "s.csv").unlink()
    (folder / "s.csv").symlink_to("/dev/zero")
    refused(place, "s.csv: a device")
    (folder / "s.csv").unlink()
    (folder / "s.csv").symlink_to("nowhere")
    refused(place, "s.csv: cannot be read", code=4)


@pytest.mark.parametrize(
    ("log", "kind"),
    [
        ("_delta_log/0.json", "Delta Lake"),
        ("metadata/v1.metadata.json", "Iceberg"),
        ("metadata/v1.metadata.json.gz", "Iceberg"),
        (".hoodie/hoodie.properties", "Hudi"),
    ],
)
def test_a_table_with_a_log_is_refused_wherever_it_is_entered(place, folder, log, kind):
    (folder / log).parent.mkdir()
    (folder / log).touch()
    # With the extra `delta` the folder itself is read, by its log.
    whole = () if kind == "Delta Lake" and is_installed() else ("",)
    for way in (*whole, "2024", "2024/*.csv", "2024/jan.csv"):
        place.source = folder / way
        place.write_job(JOB)
        refused(place, f"{folder} is a table of {kind}", "export the table")


def test_a_folder_that_is_called_metadata_is_none(place, folder):
    write_table(people(5), folder / "metadata/x.csv")
    place.write_job(JOB)
    assert place.privatize().code == 0


@pytest.mark.parametrize("path", ["hdfs://host/in.parquet", "file:///etc/passwd.csv", "https://example.org/a.csv", "gs:/x.arrow"])
def test_addresses_are_refused(place, path):
    place.source = path
    place.write_job(JOB)
    refused(place, "addresses are not supported")
    done = place.dpcore("estimate", path)
    assert (done.code, done.out) == (2, "")
    assert "addresses are not supported" in done.err
    write_table(people(5), place.folder / "in.parquet")
    place.source = place.folder / "in.parquet"
    place.write_job({"state": {"mechanism": "kary", "epsilon": 1.0, "categories_file": path}})
    refused(place, "categories_file = ", "addresses are not supported")


# One table from the first byte to the last


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def grow(path):
    with path.open("ab") as file:
        file.write(b"\n1,2,3,4,5,6,7\n")


def rewrite(path):
    content = path.read_bytes()
    path.write_bytes(content[::-1])


CHANGES = [cut, grow, rewrite]
TABLE = pa.concat_tables([people(1000)] * 60)


def while_read(monkeypatch, source, change):
    """Change the file when its first piece has been read."""
    monkeypatch.setattr(rows, "rows_of_pieces", changing(rows.rows_of_pieces, source, change))


def changing(rows_of_pieces, source, change):
    def read(*arguments):
        pieces = rows_of_pieces(*arguments)
        yield next(pieces)
        change(source)
        yield from pieces

    return read


@posix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("source", FORMATS)
def test_an_input_that_changes_while_it_is_privatised(place, monkeypatch, source, change):
    place.source = write_table(TABLE, place.folder / f"in.{source}", row_group_rows=20_000)
    place.write_job(JOB)
    while_read(monkeypatch, place.source, change)
    refused(place, f"in.{source}: the input changed while it was read", code=4)


class WithoutDescriptor(pa.OSFile):
    """A file as pyarrow opened it before version 25."""

    def fileno(self):
        raise io.UnsupportedOperation("fileno")


@pytest.mark.some(3)
@posix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("source", FORMATS)
def test_an_input_that_changes_is_refused_without_descriptors(place, monkeypatch, source, change):
    place.source = write_table(TABLE, place.folder / f"in.{source}", row_group_rows=20_000)
    place.write_job(JOB)
    monkeypatch.setattr(pa, "OSFile", WithoutDescriptor)
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == len(TABLE)
    place.target.unlink()
    while_read(monkeypatch, place.source, change)
    refused(place, f"in.{source}: the input changed while it was read", code=4)


@posix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("source", FORMATS)
def test_an_input_that_changes_while_it_is_added_up(tmp_path, capsys, monkeypatch, source, change):
    place = Counter(tmp_path, capsys)
    place.source = write_table(TABLE, place.folder / f"in.{source}", row_group_rows=20_000)
    place.write_release(COUNT)
    while_read(monkeypatch, place.source, change)
    done = place.release()
    assert (done.code, done.out) == (4, ""), done.err
    assert f"in.{source}: the input changed while it was read" in done.err


@pytest.mark.some(3)
@posix
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("target", FORMATS)
def test_reports_that_change_while_they_are_counted(place, monkeypatch, target, change):
    write_table(TABLE, place.source)
    place.target = place.folder / f"out/private.{target}"
    place.write_job({name: COLUMNS[name] for name in ("visits", "income", "cost")})
    assert place.privatize().code == 0
    while_read(monkeypatch, place.target, change)
    with pytest.raises(StorageError, match="the input changed while it was read"):
        estimate(place.target)


@posix
def test_a_file_that_takes_the_name_of_one_being_read_is_not_read(place, monkeypatch):
    """What is open stays what it was; only what was planned may be opened."""
    place.source = write_table(TABLE, place.folder / "in.csv")
    other = write_table(people(5), place.folder / "other.csv")
    place.write_job(JOB)
    while_read(monkeypatch, place.source, lambda path: shutil.move(other, path))
    assert place.privatize().code == 0
    assert len(read_table(place.target)) == len(TABLE)


@posix
def test_a_reader_that_does_not_look_back_is_caught(place, monkeypatch):
    place.source = write_table(TABLE, place.folder / "in.csv")
    place.write_job(JOB)
    while_read(monkeypatch, place.source, grow)
    monkeypatch.setattr(sources, "_check_unchanged", lambda *_: None)
    with pytest.raises(AssertionError):
        refused(place, "the input changed while it was read", code=4)


# Headers


RECORD = "Ann Example,HIV positive,31337\nBob Example,none,17\n"


@pytest.mark.parametrize("content", [RECORD, "Ann Example,31337,31337\n1,2,3\n"])
def test_a_first_record_is_not_shown_as_a_header(place, content):
    place.source = place.folder / "in.csv"
    place.source.write_text(content)
    for name in ("diagnosis", "HIV negative", "Ann"):
        place.write_job({name: JOB["visits"]})
        done = place.privatize()
        assert done.code == 2, done.said
        for secret in ("Ann Example", "HIV positive", "31337"):
            assert secret not in done.said


def test_the_one_near_name_of_a_header_is_shown(place):
    place.source = write_table(people(3), place.folder / "in.csv")
    place.write_job({"vists": JOB["visits"]})
    done = place.privatize()
    assert done.code == 2
    assert "there is no column 'vists' in the header, which is the first line. Did you mean 'visits'?" in done.err
    assert "income" not in done.said


@pytest.mark.parametrize(
    ("asked", "names", "near"),
    [
        ("visits", ["x", "vists", "visits2"], "vists"),
        ("regoin", ["region"], "region"),
        ("income", ["incomes", "INCOME"], "INCOME"),
        ("age", ["Age"], "Age"),
        ("age", ["aga"], None),
        ("x", ["y"], None),
        ("diagnosis", ["HIV positive", "diagnoses"], "diagnoses"),
        ("diagnosis", ["prognosis"], None),
        ("visits", ["visited by"], None),
        ("", ["a"], None),
    ],
)
def test_near_names(asked, names, near):
    assert near_name(asked, names) == near


def test_one_name_of_a_header_is_suggested_however_many_are_near():
    assert suggestion("visits", [f"visits{i}" for i in range(9)]) == " Did you mean 'visits0'?"
    assert suggestion("visits", ["cost"]) == ""


def test_slips_are_counted_as_the_shortest_way_of_edits():
    """Against all words that so many edits make."""
    letters = "abc"

    def edited(word):
        for i in range(len(word) + 1):
            yield from (word[:i] + letter + word[i:] for letter in letters)
            if i < len(word):
                yield word[:i] + word[i + 1 :]
                yield from (word[:i] + letter + word[i + 1 :] for letter in letters)
            if i + 1 < len(word):
                yield word[:i] + word[i + 1] + word[i] + word[i + 2 :]

    for word in map("".join, itertools.product(letters, repeat=3)):
        one = set(edited(word)) - {word}
        assert {slips(word, each, 2) for each in one} == {1}
        for each in map("".join, itertools.product(letters, repeat=4)):
            assert (slips(word, each, 2) == 1) == (each in one)
