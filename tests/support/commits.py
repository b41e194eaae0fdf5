"""Releases that can be replayed: jobs of all kinds, and a key file taken apart by the format that its page describes."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.every_query import EVERY_UNIT, KINDS, document, job_text, table
from support.jobs import write_table
from support.releases import Counter, clinic

MAGIC = b"dpcore key file 1\n"


class Kept(Counter):
    """A folder with an input, a release job, its output, and its key file."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        super().__init__(folder, capsys)
        self.key = folder / "keys" / "release.key"

    def commit(self, *arguments: object) -> Any:
        """Run the job with the key file."""
        return self.release("--commit", self.key, *arguments)

    def verify(self, *arguments: object) -> Any:
        """Verify the answers with the key file."""
        return self.dpcore("verify", self.target, "--key", self.key, "--json", *arguments)

    def verdict(self, *arguments: object) -> list[str]:
        """What differs; nothing else may have gone wrong."""
        done = self.verify(*arguments)
        assert done.code in (0, 1), done.err
        found = json.loads(done.out)
        assert found["matches"] == (done.code == 0) == (found["mismatches"] == [])
        return found["mismatches"]  # type: ignore[no-any-return]

    @property
    def document(self) -> dict[str, Any]:
        """What was published."""
        return json.loads(self.target.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def parts_of(path: Path) -> tuple[bytes, bytes, bytes, list[bytes]]:
    """The key, the blinder, what the key is for, and the lines after it."""
    content = path.read_bytes()
    assert content.startswith(MAGIC)
    head, (empty, line, *others) = content[len(MAGIC) : len(MAGIC) + 64], content[len(MAGIC) + 64 :].split(b"\n")
    assert empty == others.pop() == b""
    return head[:32], head[32:], line, others


def framed(*parts: bytes) -> bytes:
    """Parts, each behind its length in eight bytes, and their number."""
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts) + len(parts).to_bytes(8, "little")


def commitment(key: bytes, blinder: bytes, line: bytes) -> str:
    """The commitment, as the page defines it."""
    return hmac.new(blinder, framed(b"dpcore release commitment 1", key, line), hashlib.sha256).hexdigest()


def derived(key: bytes, purpose: bytes, *parts: bytes) -> bytes:
    """A key that is derived from another one."""
    return hashlib.blake2b(framed(purpose, *parts), key=key, digest_size=32, person=b"dpcore-job-key-1").digest()


# Jobs of all kinds

WAYS = {"one": ("one",), "listed": ("listed", "two"), "private": ("private", "private pairs")}


def chosen(job: dict[str, Any], groups: tuple[str, ...]) -> dict[str, Any]:
    """The job with one query of each example for some groups, by turns with and without a condition and with and without null cells."""
    kept, seen = [], set()
    for query in job["query"]:
        if query["kind"] == "groups":
            kept += [query] if query["name"] in groups else []
            continue
        name, where, way, absent = query["name"].split(" / ")
        turn = (sorted(KINDS).index(name) + groups.index(way)) % 4 if way in groups else None
        wanted = {0: ("all", "filled"), 1: ("some", "filled"), 2: ("all", "skipped"), 3: ("some", "skipped")}
        if turn is None or (name, way) in seen:
            continue
        if (where, absent) == wanted[turn] or (where, absent) == (wanted[turn][0], "filled"):
            seen.add((name, way))
            kept.append(query)
    return job | {"query": kept}


def every_job(place: Kept, unit: str, way: str, **keys: Any) -> None:
    """Write a job about rows of every type, with all examples of all kinds, for some groups and a unit."""
    pq.write_table(table(300, 60), place.source)
    job = chosen(document(place.folder, unit, key=None, **keys), WAYS[way])
    write(place, job)


def write(place: Kept, job: dict[str, Any]) -> None:
    """Write a job on the place's input and output."""
    files = {"input": {"path": str(place.source)}, "output": {"path": str(place.target)}}
    head = {key: value for key, value in job.items() if not isinstance(value, dict | list)}
    place.job.write_text(job_text(head | files | {key: value for key, value in job.items() if key not in head}), encoding="utf-8")


def small_job(place: Kept, *, rows: int = 120, ending: str = "parquet", **keys: Any) -> None:
    """Write a job with a query of each kind that answers with numbers."""
    place.source = place.folder / f"in.{ending}"
    write_table(clinic(rows), place.source)
    place.write_release(key=None, **keys)


def synthetic_job(place: Kept) -> None:
    """Write a job that makes up a table in each format."""
    queries = {f"made {ending}": place.synthetic(ending, output=str(place.target.parent / f"{ending}.{ending}")) for ending in FORMATS}
    small_job(place, queries=queries)


FORMATS = ("parquet", "csv", "arrow")


def folder_job(place: Kept) -> None:
    """Write a job on a folder of files, whose subfolders are named after values."""
    place.source = place.folder / "visits"
    for region in ("north", "south"):
        for part in range(2):
            write_table(clinic(60 + part).drop_columns("region"), place.source / f"region={region}" / f"{part}.parquet")
    place.write_release(key=None)


def daily_job(place: Kept) -> None:
    """Write a job with dates in TOML's own form, weights, files of categories, and a ledger that counts ρ."""
    from dpcore.accounting import Ledger

    days = pa.array(range(15700, 15800), pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"day": days, "region": [f"r{i % 3}" for i in range(100)]}), place.source)
    (place.folder / "regions.txt").write_text("region\nr0\nr1\nr2\n", encoding="utf-8")
    Ledger.create(place.folder / "days.ledger", rho=50.0, failure_delta=1e-3)
    place.job.write_text(
        f"""
version = 1
[input]
path = {json.dumps(str(place.source))}
[output]
path = {json.dumps(str(place.target))}
[privacy]
max_epsilon = 8
max_delta = 1e-6
accounting = "zcdp"
[ledger]
path = {json.dumps(str(place.folder / "days.ledger"))}
[[query]]
name = "mean day"
kind = "mean"
column = "day"
lower = 2012-12-01
upper = 2013-06-30
missing = 2013-01-01
weight = 2
[[query]]
name = "regions"
kind = "histogram"
column = "region"
categories_file = {json.dumps(str(place.folder / "regions.txt"))}
missing = "r0"
unknown = "r1"
weight = 1
""",
        encoding="utf-8",
    )


UNITS = tuple(EVERY_UNIT)
