"""Job files: loaded, planned, and run on small tables with planted values."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from dpcore.accounting import Ledger
from dpcore.batch import estimate, load_job, load_release_job, make_plan, make_release_plan, privatize, release
from dpcore.jobs.settings import Settings
from dpcore.tables.run_ids import canonical
from fuzz import toml_text
from fuzz.target import MARK, NUMBER_MARK, FoundError, Target
from support.jobs import write_table

if TYPE_CHECKING:
    import random

ROWS = 12
READ = ("people.csv", "people.parquet", "people.arrow", "towns.csv", "plans.csv", "deaths.parquet")
WRITTEN = ("budget", "out.json", "out.parquet", "out.csv", "out.arrow", "made.csv", "made.parquet", "state/kept")
FILES = frozenset((*READ, *WRITTEN))
"""What a job may name to be run: an input must not make the fuzzer read or write anything else."""
PATHS = ("path", "output", "categories_file", "candidates_file", "groups_file", "state")
SIZES = ("k", "bins", "draws", "max_cells", "steps", "s", "shards")
MOST, MOST_TEXT = 5000, 100_000
"""Larger jobs are planned, and not run: they take the time that they ask for."""
SETTING = re.compile(r"^#set (.*)$", re.MULTILINE)
"""A comment that stands for an option of the command line."""


def people() -> pa.Table:
    """A table with planted values in each column that messages could show."""
    index = range(ROWS)
    return pa.table(
        {
            "visits": pa.array([NUMBER_MARK if i == 7 else None if i == 5 else i for i in index]),
            "income": pa.array([NUMBER_MARK + 0.25 if i == 3 else i * 1000.0 for i in index]),
            "label": pa.array([MARK if i == 4 else "abc"[i % 3] for i in index]),
            "text": pa.array([f"{MARK} {i}" if i % 5 == 2 else "ab"[i % 2] for i in index]),
            "flag": pa.array([i % 3 == 0 for i in index]),
            "code": pa.array([i % 4 for i in index], pa.int16()),
            "person": pa.array([f"{MARK}{i // 3}" for i in index]),
            "day": pa.array([19723 + 31 * i for i in index], pa.int32()).cast(pa.date32()),
            "moment": pa.array([1_704_067_200_000_000 + 86_400_000_000 * i for i in index]).cast(pa.timestamp("us")),
            "amount": pa.array([i * 100 for i in index]).cast(pa.decimal128(20, 0)).cast(pa.decimal128(12, 2)),
            "note": pa.array([f"{MARK} note {i}" for i in index]),
        }
    )


class Jobs(Target):
    """TOML of a job of `dpcore privatize` or `dpcore release`; lines `#set KEY=VALUE` are options of the command line."""

    name: ClassVar[str] = "jobs"
    promise: ClassVar[str] = (
        "a plan spends at most max_epsilon; a run that fails before it reads rows charges nothing; what it writes is read again"
    )
    longest: ClassVar[int] = 6000
    megabytes: ClassVar[int] = 1500
    words: ClassVar[tuple[str, ...]] = (
        *toml_text.KEYS,
        *toml_text.NAMES,
        "[[query]]",
        "[[column]]",
        " = ",
        "#set ",
        "${DATE}",
        '"',
        "'''",
        "{ ",
        " }",
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        table = people()
        for ending in ("parquet", "csv", "arrow"):
            write_table(table, folder / f"people.{ending}")
        write_table(pa.table({"person": [f"{MARK}{i}" for i in range(3)], "died": [1, 2, 3]}), folder / "deaths.parquet")
        (folder / "towns.csv").write_text("town\na\nb\nc\n", encoding="utf-8")
        (folder / "plans.csv").write_text("code,plan,beds\n0,free,1\n1,paid,2\n2,none,3\n", encoding="utf-8")
        (folder / "state").mkdir(mode=0o700)
        Ledger.create(folder / "budget", epsilon=50.0, delta=1e-3)
        self._ledger = (folder / "budget").read_bytes()
        (folder / "budget").unlink()
        self._mutator = toml_text.TomlMutator(toml_text.documents(Path(__file__).parent / "corpus" / self.name))

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        return self._mutator.mutated(data, rng)

    def declares(self, mark: str, data: bytes) -> bool:
        return mark.encode() in data

    def is_watched(self, path: Path) -> bool:
        return path.name not in {"job.toml", "budget", "job.json"} and not (self.is_reading and path.parts[0] == "state")

    def run(self, data: bytes) -> None:
        (self.folder / "job.toml").write_bytes(data)
        (self.folder / "budget").write_bytes(self._ledger)
        try:
            self._run(data)
        finally:
            if not self.is_reading and (self.folder / "budget").read_bytes() != self._ledger:
                raise FoundError("the ledger changed before any row was read")

    def _run(self, data: bytes) -> None:
        settings = Settings.read(SETTING.findall(data.decode(errors="replace"))[:4])
        path = Path("job.toml")
        if re.search(rb"\bquery\b", data):
            job = load_release_job(path, settings=settings)
            if self._may_run(job):
                self._release(job)
        else:
            local = load_job(path, settings=settings)
            if self._may_run(local):
                self._privatize(local)

    def _release(self, job: Any) -> None:
        plan = make_release_plan(job)
        total = plan.job.total
        if total.epsilon > job.privacy.max_epsilon or total.delta > job.privacy.max_delta:
            raise FoundError(f"the plan spends {total}, more than {job.privacy.max_epsilon}, {job.privacy.max_delta}")
        self.is_reading = True
        document = release(plan, threads=1)
        spent = document["privacy"]
        if spent["epsilon"] > job.privacy.max_epsilon or spent["delta"] > job.privacy.max_delta:
            raise FoundError(f"the answers spend {spent}")
        if job.ledger is not None and Ledger(self.folder / "budget").spent.epsilon < (0 if job.is_paid_once else spent["epsilon"]):
            raise FoundError("the ledger has less than the answers spend")

    def _privatize(self, job: Any) -> None:
        plan = make_plan(job)
        self.is_reading = True
        done = privatize(plan, threads=1)
        if done.rows != (ROWS if "people" in job.input.path else done.rows):
            raise FoundError(f"{done.rows} rows were written of {ROWS}")
        if job.ledger is not None and Ledger(self.folder / "budget").spent.epsilon < job.total.epsilon:
            raise FoundError("the ledger has less than the table spends")
        if job.output.shards is None:
            estimate(plan.output, threads=1)

    def _may_run(self, job: Any) -> bool:
        """Whether the job names files of the folder alone, and is small."""
        said = canonical(job)
        return len(repr(said)) < MOST_TEXT and all(_is_tame(key, value) for key, value in _values(said))

    def clear(self, kept: dict[str, tuple[int, int]]) -> None:
        super().clear(kept)
        shutil.rmtree(self.folder / "state", ignore_errors=True)
        (self.folder / "state").mkdir(mode=0o700)


def _values(said: Any, key: str = "") -> list[tuple[str, Any]]:
    """All values, with the keys that they have."""
    if isinstance(said, dict):
        return [pair for name, value in said.items() for pair in _values(value, str(name))]
    if isinstance(said, list | tuple):
        return [pair for value in said for pair in _values(value, key)]
    return [(key, said)]


def _is_tame(key: str, value: Any) -> bool:
    if key in PATHS and isinstance(value, str):
        return value in FILES
    if key == "groups" and isinstance(value, str):
        return value == "private" or value in FILES
    return not (key in SIZES and isinstance(value, int) and value > MOST)
