"""A store that fails: nothing is half-written, the object and the cause are named, the exit code is 4, and no message holds a cell."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dpcore.accounting import Ledger
from dpcore.batch import StorageError, estimate, load_job, make_plan, privatize
from support.fault_proxy import always, fault_proxy, once
from support.jobs import COLUMNS, people, write_table
from support.stores import Store

JOB = {"visits": COLUMNS["visits"]}
SECRET = "secret-cell"
LOST = "the connection failed or was lost"


@pytest.fixture
def faults(s3: Store, s3_endpoint, monkeypatch):
    """A proxy that the environment names in the place of the store."""
    with fault_proxy(s3_endpoint) as made:
        monkeypatch.setenv("AWS_ENDPOINT_URL", made.endpoint)
        yield made


@pytest.fixture(autouse=True)
def staging(tmp_path, monkeypatch):
    folder = tmp_path / "staging"
    monkeypatch.setenv("DPCORE_STAGING", str(folder))
    return folder


def secret_people(rows):
    table = people(rows)
    return table.set_column(table.column_names.index("note"), "note", pa.array([f"{SECRET} {row}" for row in range(rows)]))


def stopped(place, *words):
    done = place.privatize()
    assert done.code == 4, done.said
    assert "Traceback" not in done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert SECRET not in done.said
    assert "secret words" not in done.said
    return done


def ledger_of(place):
    return Ledger.create(place.folder / "study.ledger", epsilon=10.0, delta=1e-3)


# Reading


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize(("word", "cause"), [("cut", LOST), (500, "the store failed"), (403, "access is denied")])
def test_a_read_that_fails_half_way_ends_the_job_by_name(place, s3: Store, faults, ending, word, cause):
    table = write_table(secret_people(20_000), place.folder / f"in.{ending}", row_group_rows=5000)
    place.source = s3.put(table.name, table)
    ledger = ledger_of(place)
    place.write_job(JOB, keep=["note"], key=None, ledger=ledger.path)
    plan = make_plan(load_job(place.job))  # what is read until then works
    faults.rules.append(always("is_data", word))
    with pytest.raises(StorageError) as failure:
        privatize(plan)
    assert place.source in str(failure.value)
    # Of a failure whose text is longer than the bytes that were asked for, pyarrow knows only that it is one.
    assert cause in str(failure.value) or (ending == "arrow" and "the store failed" in str(failure.value))
    assert "The charge of this run stays in the ledger (entry 1)" in str(failure.value)
    assert SECRET not in str(failure.value)
    assert place.left_behind() == []
    assert [(entry.state, entry.reason) for entry in ledger.entries()] == [("failed", "storage")]
    faults.rules.clear()
    assert place.privatize().code == 0


@pytest.mark.parametrize("word", ["cut", 500])
def test_a_read_that_fails_once_is_made_again(place, s3: Store, faults, word):
    write_table(secret_people(5000), place.source)
    place.source = s3.put("in.parquet", place.source)
    place.write_job(JOB, keep=["note"])
    assert place.privatize().code == 0
    whole = place.target.read_bytes()
    for after in range(3):
        faults.rules[:] = [once("is_data", word, after)]
        assert place.privatize("--overwrite").code == 0
        assert place.target.read_bytes() == whole


def test_an_object_that_is_replaced_between_planning_and_reading_is_named(place, s3: Store):
    write_table(people(500), place.source)
    other = write_table(secret_people(500), place.folder / "other.parquet")
    place.source = s3.put("in.parquet", place.source)
    place.write_job(JOB)
    plan = make_plan(load_job(place.job))
    s3.put("in.parquet", other)
    with pytest.raises(StorageError, match=r"in.parquet: the input changed while it was read"):
        privatize(plan)
    s3.remove("in.parquet")
    with pytest.raises(StorageError, match=r"in.parquet: (cannot be read: there is no such object|the input changed)"):
        privatize(plan)
    assert place.left_behind() == []


@pytest.mark.parametrize("ending", ["parquet", "csv", "arrow"])
@pytest.mark.parametrize("what", ["replaced", "removed"])
def test_an_object_that_is_replaced_between_row_groups_is_named(place, s3: Store, faults, ending, what):
    first = write_table(people(300_000).select(["visits"]), place.folder / f"in.{ending}", row_group_rows=20_000)
    other = write_table(people(400_000).select(["visits"]), place.folder / f"other.{ending}", row_group_rows=20_000)
    place.source = s3.put(first.name, first)
    place.write_job(JOB)
    plan = make_plan(load_job(place.job))

    def replace():
        s3.put(first.name, other) if what == "replaced" else s3.remove(first.name)

    faults.rules.append(once("is_data", replace, after=1))
    with pytest.raises(StorageError, match="the input changed while it was read"):
        privatize(plan)
    assert place.left_behind() == []


def test_without_credentials_nothing_is_spent(place, s3: Store, faults, monkeypatch):
    write_table(people(50), place.source)
    ledger = ledger_of(place)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(place.folder / "none"))
    faults.rules.append(lambda _: 403)
    for place.source, place.target in ((s3.address("in.parquet"), place.target), (place.source, s3.address("o.parquet"))):  # noqa: B020
        place.write_job(JOB, key=None, ledger=ledger.path)
        stopped(place, "there are no credentials; set AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    stopped(place, "access is denied")
    assert list(ledger.entries()) == []


def test_a_store_that_is_not_there_is_named(place, s3: Store, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    place.source = s3.address("in.parquet")
    place.write_job(JOB)
    stopped(place, place.source, LOST)


# Writing


@pytest.mark.parametrize(("what", "word"), [("is_part", "lose"), ("is_part", 500), ("is_completion", 500), ("is_part", 403)])
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_an_upload_that_fails_leaves_nothing(place, s3: Store, faults, staging, what, word, ending):
    write_table(secret_people(3000), place.source)
    place.target = s3.address(f"out/o.{ending}")
    place.write_job(JOB, keep=["note"])
    faults.rules.append(always(what, word))
    stopped(place, s3.address("out/o."), {"lose": LOST, 500: "the store failed", 403: "access is denied"}[word])
    assert s3.names() == []
    assert list(staging.iterdir()) == []
    faults.rules.clear()
    assert place.privatize().code == 0
    assert estimate(place.target).rows == 3000


def test_a_second_object_that_fails_takes_the_first_with_it(place, s3: Store, faults, staging):
    write_table(people(3000), place.source)
    place.target = s3.address("o.parquet")
    place.write_job(JOB, shards=3)
    faults.rules.append(once("is_part", None, after=1))
    faults.rules.append(lambda request: "lose" if request.is_part and "3-of-3" in request.path else None)
    stopped(place, s3.address("o-3-of-3.parquet"), LOST)
    assert s3.names() == []


@pytest.mark.parametrize("way", ["the next start", "dpcore ledger complete"])
def test_with_a_ledger_an_upload_that_failed_is_made_again_without_spending(place, s3: Store, faults, staging, way):
    write_table(people(3000), place.source)
    ledger = ledger_of(place)
    place.target = s3.address("o.csv")
    place.write_job(JOB, key=None, ledger=ledger.path)
    faults.rules.append(lambda request: "lose" if request.is_part and request.path.split("?")[0].endswith("o.csv") else None)
    done = stopped(place, place.target, LOST, "sealed in the ledger")
    assert "without spending again" in done.err
    assert "o.csv" not in s3.names()
    assert [entry.state for entry in ledger.entries()] == ["sealed"]
    done = place.dpcore("ledger", "complete", ledger.path)
    assert (done.code, "o.csv" in s3.names()) == (4, False)
    faults.rules.clear()
    done = place.privatize() if way == "the next start" else place.dpcore("ledger", "complete", ledger.path)
    assert done.code == 0, done.said
    assert [entry.state for entry in ledger.entries()] == ["done"]
    assert estimate(place.target).rows == 3000


def test_an_answer_that_is_lost_after_the_object_is_complete_is_no_failure(place, s3: Store, faults):
    write_table(people(3000), place.source)
    place.target = s3.address("o.parquet")
    place.write_job(JOB)
    faults.rules.append(always("is_completion", "forget"))
    done = place.privatize()
    assert done.code == 0, done.said
    assert estimate(place.target).rows == 3000


def test_a_disk_that_fails_during_an_upload_shows_no_part_of_it(s3: Store, tmp_path, monkeypatch):
    from dpcore._disk import stores
    from dpcore._disk.addresses import Address

    content = tmp_path / "content"
    content.write_bytes(bytes(40 << 20))

    def failing(*_):
        yield bytes(20 << 20)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(stores, "_parts", failing)
    with pytest.raises(StorageError, match="Input/output error"):
        stores.upload(content, Address.of(s3.address("o")), "0" * 64, overwrite=False)
    assert s3.names() == []
