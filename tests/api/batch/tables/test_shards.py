"""`[output] shards`: several files and one manifest, published together, and read back through it."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

from dpcore.accounting import Ledger
from dpcore.batch import JobError, StorageError, estimate, make_plan, make_release_plan, parse_job, parse_release_job, privatize, release
from dpcore.errors import DataError
from dpcore.tables.discovery import discover
from dpcore.tables.output import sharded, shards, writers
from support.jobs import COLUMNS, KEY, Workplace, people, read_table, refused, write_table

ROWS = 5000
GROUP = 300
SECTIONS = [{"name": name, **section} for name, section in COLUMNS.items()]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    """Row groups and record batches of 300 rows."""
    monkeypatch.setattr(writers, "ROW_GROUP_ROWS", GROUP)
    monkeypatch.setattr(writers, "BATCH_ROWS", GROUP)


@pytest.fixture
def place(tmp_path, capsys):
    place = Workplace(tmp_path, capsys)
    write_table(people(ROWS), place.source)
    return place


def document(place, ending="parquet", **output):
    return {
        "version": 1,
        "keep": ["state", "note"],
        "input": {"path": str(place.source)},
        "output": {"path": str(place.target.with_suffix(f".{ending}")), **output},
        "privacy": {"max_epsilon": 4.0, "max_delta": 2e-6},
        "testing": {"key_hex": KEY.hex()},
        "column": SECTIONS,
    }


def planned(place, **output):
    return make_plan(parse_job(document(place, **output)))


def groups_of(path):
    """Row groups or record batches of a file."""
    if path.suffix == ".parquet":
        file = pq.ParquetFile(path)
        return [file.read_row_group(group) for group in range(file.num_row_groups)]
    file = ipc.open_file(path)
    return [pa.Table.from_batches([file.get_batch(batch)]) for batch in range(file.num_record_batches)]


@pytest.mark.some(2)
@pytest.mark.parametrize("threads", [1, 2, 7])
@pytest.mark.parametrize("count", [1, 3, 40])
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_shards_hold_the_row_groups_of_one_file_dealt_out_in_turn(place, ending, count, threads):
    one = privatize(planned(place, ending=ending), threads=1).plan.output
    whole = groups_of(one)
    summary = privatize(planned(place, ending=ending, shards=count), threads=threads)
    assert summary.rows == ROWS
    assert len(whole) == -(-ROWS // GROUP)
    assert summary.plan.output == place.target.parent / "private.shards.json"
    dealt = [groups_of(path) for path in summary.plan.shards]
    assert [len(each) for each in dealt] == [len(whole[start::count]) for start in range(count)]
    for number, group in enumerate(whole):
        assert dealt[number % count][number // count].equals(group)
    for path in summary.plan.shards:
        assert read_table(path).schema.equals(read_table(one).schema, check_metadata=True)
    assert sorted(place.left_behind()) == sorted([one.name, summary.plan.output.name, *(path.name for path in summary.plan.shards)])


def test_the_files_do_not_depend_on_threads_and_pieces(place):
    contents = set()
    for threads, piece_rows in ((1, None), (4, 77), (2, 1000)):
        plan = make_plan(parse_job(document(place, shards=4)), overwrite=True)
        privatize(plan, threads=threads, piece_rows=piece_rows)
        contents.add(tuple(path.read_bytes() for path in (*plan.shards, plan.output)))
    assert len(contents) == 1


def test_the_manifest_names_every_shard(place):
    import hashlib

    plan = privatize(planned(place, shards=3)).plan
    said = json.loads(plan.output.read_text(encoding="utf-8"))
    assert (said["format"], said["kind"], said["rows"]) == (1, "shards", ROWS)
    assert said["dpcore"]["epsilon"] == 4.0
    for entry, path in zip(said["shards"], plan.shards, strict=True):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        assert entry == {"name": path.name, "rows": pq.read_metadata(path).num_rows, "bytes": len(content), "sha256": digest}
    assert [path.name for path in plan.shards] == [f"private-{i}-of-3.parquet" for i in (1, 2, 3)]


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_estimates_and_releases_read_the_shards(place, ending):
    one = estimate(privatize(planned(place, ending=ending)).plan.output)
    one_file = place.target.with_suffix(f".{ending}")
    one_file.unlink()
    plan = privatize(planned(place, ending=ending, shards=3)).plan
    for path in (plan.output, place.target.parent, place.target.parent / f"private-*.{ending}"):
        found = estimate(path)
        assert (found.rows, len(found.files)) == (ROWS, 3)
        assert [each.estimate.value for each in found.columns] == [each.estimate.value for each in one.columns]
    for path in (plan.output, place.target.parent):
        job = {
            "version": 1,
            "input": {"path": str(path)},
            "output": {"path": str(place.folder / "answers.json")},
            "privacy": {"max_epsilon": 1.0},
            "query": [{"name": "n", "kind": "count", "epsilon": 1.0}],
        }
        assert release(make_release_plan(parse_release_job(job), overwrite=True))["rows"] == ROWS


def test_the_command_tells_of_shards(place):
    place.write_job(shards=3)
    done = place.privatize("--dry-run", "--table")
    assert done.code == 0
    assert "3 shards" in done.said
    done = place.privatize("--table")
    assert done.code == 0, done.said
    assert "private.shards.json: 5,000 rows" in done.said
    assert place.dpcore("estimate", place.target.parent / "private.shards.json").code == 0
    done = place.privatize()
    assert done.code == 2
    assert "exists" in done.said
    assert place.privatize("--overwrite", "--report", place.folder / "report").code == 0
    assert sorted(path.name for path in (place.folder / "report").iterdir()) == ["private.html", "private.json"]
    said = json.loads((place.folder / "report" / "private.json").read_text(encoding="utf-8"))
    assert said["output"]["shards"] == 3


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0, 'shards must be "auto" or an integer in [1, 1024], got 0'),
        (1025, "shards must be"),
        ("some", "shards must be"),
        (True, "shards must be"),
        (2.5, "shards must be"),
        ([2], "shards must be"),
    ],
)
def test_other_numbers_of_shards_are_refused(place, value, words):
    with pytest.raises(JobError) as refusal:
        parse_job(document(place, shards=value))
    assert words in str(refusal.value)


def test_a_csv_has_no_shards(place):
    with pytest.raises(JobError, match="a CSV file is written as one; use parquet or arrow"):
        parse_job(document(place, ending="csv", shards=2))


def test_auto_follows_from_the_number_of_rows(place, monkeypatch):
    monkeypatch.setattr(shards, "AUTO_ROWS", 1300)
    assert len(planned(place, shards="auto").shards) == 4
    monkeypatch.setattr(shards, "AUTO_MOST", 3)
    assert len(planned(place, shards="auto").shards) == 3
    place.source = write_table(people(0), place.folder / "none.parquet")
    assert len(planned(place, shards="auto").shards) == 1
    for ending in ("csv", "arrow"):
        place.source = write_table(people(10), place.folder / f"in.{ending}")
        assert len(planned(place, shards="auto").shards) == shards.AUTO_UNKNOWN


def test_more_shards_than_row_groups_and_no_rows(place):
    place.source = write_table(people(0), place.folder / "none.parquet")
    plan = privatize(planned(place, shards=3)).plan
    assert [pq.read_metadata(path).num_rows for path in plan.shards] == [0, 0, 0]
    with pytest.raises(DataError, match="no rows"):
        estimate(plan.output)


def damaged(change):
    return pytest.param(change, id=change.__name__)


def lost(plan):
    plan.shards[1].unlink()
    return "private.shards.json: the shard private-2-of-3.parquet is missing"


def shorter(plan):
    os.truncate(plan.shards[1], 100)
    return "private-2-of-3.parquet: 100 bytes, and private.shards.json says"


def changed_inside(plan):
    content = bytearray(plan.shards[1].read_bytes())
    content[len(content) // 2] ^= 1
    plan.shards[1].write_bytes(content)
    return ""


@pytest.mark.parametrize("change", [damaged(lost), damaged(shorter), damaged(changed_inside)])
def test_an_incomplete_table_is_not_estimated(place, change):
    plan = privatize(planned(place, shards=3)).plan
    words = change(plan)
    for path in (plan.output, place.target.parent, plan.shards[0]):
        if not words and path == plan.shards[0]:
            continue  # It is as it was written, and only it is read.
        with pytest.raises((DataError, StorageError)) as refusal:
            estimate(path)
        assert words in str(refusal.value)


def test_a_changed_shard_is_told_by_its_digest(place):
    plan = privatize(planned(place, ending="arrow", shards=2)).plan
    other = make_plan(parse_job(document(place, "arrow", shards=2) | {"testing": {"key_hex": "11" * 32}}), overwrite=True)
    before = plan.shards[0].read_bytes()
    privatize(other)
    assert other.shards[0].stat().st_size == len(before)
    other.shards[0].write_bytes(before)
    with pytest.raises(DataError, match=r"not the table that private\.shards\.json was written for"):
        estimate(other.output)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "not the manifest"),
        (b'{"format": 2, "shards": []}', "not the manifest"),
        (b'{"format": 1, "shards": []}', "not the manifest"),
        (b'{"format": 1, "shards": [{"name": 3}]}', "an entry of the manifest is damaged"),
        (b'{"format": 1, "shards": [{"name": "../x.parquet", "rows": 1, "bytes": 1, "sha256": ""}]}', "names another place"),
        (b'{"format": 1, "shards": [{"name": "", "rows": 1, "bytes": 1, "sha256": ""}]}', "names another place"),
        (b'{"format": 1, "shards": [{"name": "a", "rows": true, "bytes": 1, "sha256": ""}]}', "damaged"),
        (b'{"format": 1, "shards": [%s]}' % b", ".join([b'{"name": "a", "rows": 1, "bytes": 1, "sha256": ""}'] * 2), "names a shard twice"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_manifests_that_dpcore_does_not_write(place, content, words):
    path = place.folder / "x.shards.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=words):
        discover(str(path))
    # Beside the files of a table it is a file of another program.
    assert estimate_of_table_beside(path).rows == 100


def estimate_of_table_beside(path):
    source = write_table(people(100), path.with_name("source") / "in.parquet")
    job = {
        "version": 1,
        "input": {"path": str(source)},
        "output": {"path": str(path.with_name("table.parquet"))},
        "privacy": {"max_epsilon": 4.0, "max_delta": 2e-6},
        "column": SECTIONS,
    }
    return estimate(privatize(make_plan(parse_job(job))).plan.output)


def test_shards_of_other_tables_in_the_folder_are_not_asked_for(place):
    plan = privatize(planned(place, shards=2)).plan
    other = document(place, shards=3)
    other["output"]["path"] = str(place.target.parent / "other.parquet")
    second = privatize(make_plan(parse_job(other))).plan
    plan.shards[0].unlink()
    assert estimate(second.output).rows == ROWS
    with pytest.raises(DataError, match="is missing"):
        estimate(place.target.parent)


def test_a_name_that_is_taken_is_refused(place):
    place.target.parent.mkdir()
    (place.target.parent / "private-2-of-3.parquet").write_bytes(b"")
    place.write_job(shards=3)
    refused(place, "private-2-of-3.parquet' exists")


def test_a_failure_leaves_nothing(place, monkeypatch):
    """The third row group cannot be written."""
    written = []

    def write(self, batch, before=sharded.Output.write):
        written.append(len(batch))
        if len(written) == 3:
            raise StorageError("no room")
        before(self, batch)

    monkeypatch.setattr(sharded.Output, "write", write)
    with pytest.raises(StorageError, match="no room"):
        privatize(planned(place, shards=2), threads=2)
    assert place.left_behind() == []


def test_a_run_that_a_ledger_knows_is_not_repeated(place, monkeypatch):
    """Also if the input has grown meanwhile, so that there would be more shards."""
    monkeypatch.setattr(shards, "AUTO_ROWS", 2000)
    Ledger.create(place.folder / "budget.ledger", epsilon=10.0, delta=1e-5)
    columns = {name: section | {"missing": 0} for name, section in COLUMNS.items() if name == "visits"}
    place.write_job(columns, key=None, ledger=place.folder / "budget.ledger", shards="auto")
    done = place.privatize()
    assert done.code == 0, done.said
    before = {path.name: path.read_bytes() for path in place.target.parent.iterdir()}
    assert len(before) == 4
    write_table(people(2 * ROWS), place.source)
    done = place.privatize()
    assert (done.code, "already published as" in done.said) == (0, True), done.said
    assert "private-3-of-3.parquet" in done.said
    assert "private-5-of-5" not in done.said
    assert {path.name: path.read_bytes() for path in place.target.parent.iterdir()} == before
    assert len(list(Ledger(place.folder / "budget.ledger").entries())) == 1
    (place.target.parent / "private-2-of-3.parquet").unlink()
    done = place.privatize()
    assert (done.code, "that is not what is there now" in done.said) == (2, True), done.said


def test_the_number_of_shards_is_a_part_of_the_run(place):
    from dpcore.tables.run_ids import run_ids

    assert len({run_ids(parse_job(document(place, shards=value))) for value in (None, 1, 2, "auto")}) == 4
