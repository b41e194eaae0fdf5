"""Tables, job files and runs of the `dpcore` command for the tests of batch jobs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
from pyarrow import ipc

KEY = bytes(range(32))
FORMATS = ("parquet", "csv", "arrow")
COLUMNS: dict[str, dict[str, Any]] = {
    "visits": {"mechanism": "discrete_laplace", "epsilon": 1.0, "lower": 0, "upper": 20, "missing": 0},
    "age": {"mechanism": "discrete_gaussian", "epsilon": 1.0, "delta": 1e-6, "lower": 18, "upper": 90, "missing": 50},
    "income": {"mechanism": "laplace", "epsilon": 1.0, "lower": 0.0, "upper": 50_000.0, "missing": 0.0},
    "cost": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6, "lower": 0.0, "upper": 400.0, "missing": 0.0},
}
"""One column for each mechanism."""


CATEGORIES = ["excellent", "good", "fair", "poor"]
EVERY_MECHANISM: dict[str, dict[str, Any]] = {
    "laplace": {"mechanism": "laplace", "lower": 0, "upper": 50, "missing": 0},
    "gaussian": {"mechanism": "gaussian", "delta": 1e-6, "lower": 0, "upper": 50, "missing": 0},
    "discrete_laplace": {"mechanism": "discrete_laplace", "lower": 0, "upper": 30, "missing": 3},
    "discrete_gaussian": {"mechanism": "discrete_gaussian", "delta": 1e-6, "lower": 0, "upper": 30, "missing": 3},
    "bounded_mean": {"mechanism": "bounded_mean", "lower": 0, "upper": 40, "missing": 1.5},
    "binary": {"mechanism": "binary"},
    "binary 0 1": {"mechanism": "binary", "missing": 1, "unknown": False},
    "binary categories": {"mechanism": "binary", "categories": ["excellent", "good"], "missing": "good", "unknown": "excellent"},
    "binary_channel": {"mechanism": "binary_channel", "categories": CATEGORIES, "phi": [3, 1.5, -1, -2], "missing": "poor"},
    "kary": {"mechanism": "kary", "categories": ["excellent", "good", "fair"], "missing": "good", "unknown": "fair"},
    "kary codes": {"mechanism": "kary", "k": 6, "missing": 5, "unknown": 0},
    "unary": {"mechanism": "unary", "categories": [0, 25, 50, 95], "missing": 0, "unknown": 95},
    "unary symmetric": {"mechanism": "unary", "categories": CATEGORIES, "method": "symmetric", "missing": "fair"},
    "subset": {"mechanism": "subset", "k": 20, "missing": 19, "unknown": 0},
    "hashing": {"mechanism": "hashing", "categories": CATEGORIES, "missing": "fair"},
    "hadamard": {"mechanism": "hadamard", "k": 11, "missing": 0, "unknown": 10},
}
"""A column for each mechanism, and for each way to declare categories, on the columns of `health_survey`."""
LATER_MECHANISMS: dict[str, dict[str, Any]] = {
    "hadamard": {"mechanism": "projective", "k": 11, "missing": 0, "unknown": 10},
    "hashing": {"mechanism": "projective", "categories": CATEGORIES, "missing": "fair"},
}
"""The same for mechanisms that came after the first golden documents, which cover those above: they have a document of their own."""


def health_survey(health: pa.Array, visits: pa.Array, coins: pa.Array, good: pa.Array) -> pa.Table:
    """A table with a column for each of `EVERY_MECHANISM`; all but the booleans hold some nulls."""
    index = np.arange(len(visits))

    def with_nulls(values: pa.Array, every: int) -> pa.Array:
        return pc.if_else(pa.array(index % every == 5), pa.scalar(None, values.type), values)

    numbers, texts, codes = with_nulls(visits, 17), with_nulls(health, 13), with_nulls(visits.cast(pa.int16()), 19)
    columns = {
        **dict.fromkeys(("laplace", "bounded_mean"), numbers.cast(pa.float64())),
        **dict.fromkeys(("gaussian", "discrete_laplace", "discrete_gaussian"), numbers),
        "binary": good.cast(pa.bool_()),
        "binary 0 1": with_nulls(coins, 23),
        **dict.fromkeys(("binary categories", "binary_channel", "kary", "hashing"), texts),
        "unary symmetric": texts.dictionary_encode(),
        **dict.fromkeys(("kary codes", "subset", "hadamard"), codes),
        "unary": with_nulls(coins, 29),
    }
    return pa.table({name: columns[name] for name in EVERY_MECHANISM})


def people(rows: int) -> pa.Table:
    """A table with the columns of `COLUMNS` and three more; some values lie outside the bounds."""
    index = np.arange(rows)
    return pa.table(
        {
            "person": pa.array(index // 3),
            "visits": pa.array(index * 7 % 30),
            "age": pa.array(index * 11 % 100, pa.int32()),
            "income": pa.array(index * 7919 % 60_000 / 4.0),
            "cost": pa.array(index * 31 % 500 / 8.0),
            "state": pa.array([f"state {i % 5}" for i in range(rows)]).dictionary_encode(),
            "note": pa.array([f'a "quoted", note {i}' for i in range(rows)]),
        }
    )


def write_table(table: pa.Table, path: Path, *, row_group_rows: int | None = None) -> Path:
    """Write in the format of the path's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match path.suffix:
        case ".parquet":
            pq.write_table(table, path, row_group_size=row_group_rows)
        case ".csv":
            arrow_csv.write_csv(decoded(table), path)
        case ".arrow":
            with ipc.new_file(path, table.schema) as writer:
                writer.write_table(table, max_chunksize=row_group_rows)
    return path


def read_table(path: Path) -> pa.Table:
    """Read in the format of the path's ending."""
    match path.suffix:
        case ".parquet":
            return pq.read_table(path)
        case ".csv":
            return arrow_csv.read_csv(path, convert_options=arrow_csv.ConvertOptions(strings_can_be_null=False))
        case _:
            return ipc.open_file(path).read_all()


def decoded(table: pa.Table) -> pa.Table:
    """Dictionary columns as plain strings, which is all that CSV and Arrow outputs hold."""
    fields = [pa.field(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields))


def toml(value: object) -> str:
    """A TOML literal: JSON's, for what jobs need."""
    return json.dumps(value, ensure_ascii=False)


def job_text(
    source: Path | str,
    target: Path | str,
    columns: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    keep: Iterable[str] = (),
    key: bytes | None = KEY,
    privacy: Mapping[str, Any] | None = None,
    ledger: Path | str | None = None,
    dataset: str | None = None,
    **output: Any,
) -> str:
    """A job file; by default with all four mechanisms and a test key."""
    lines = [
        "version = 1",
        f"keep = {toml(list(keep))}",
        "[input]",
        f"path = {toml(str(source))}",
        *([] if dataset is None else [f"dataset = {toml(dataset)}"]),
        "[output]",
        f"path = {toml(str(target))}",
    ]
    lines += [f"{name} = {toml(value)}" for name, value in output.items()]
    lines += ["[privacy]", *(f"{name} = {toml(value)}" for name, value in (privacy or {"max_epsilon": 4.0, "max_delta": 2e-6}).items())]
    lines += [] if ledger is None else ["[ledger]", f"path = {toml(str(ledger))}"]
    lines += [] if key is None else ["[testing]", f'key_hex = "{key.hex()}"']
    for name, column in (columns or COLUMNS).items():
        lines += ["[[column]]", f"name = {toml(name)}", *(f"{key} = {toml(value)}" for key, value in column.items())]
    return "\n".join(lines) + "\n"


def damage(path: Path, group: int, name: str) -> None:
    """Overwrite one column of one Parquet row group with zeros."""
    metadata = pq.ParquetFile(path).metadata
    index = metadata.schema.to_arrow_schema().get_field_index(name)
    chunk = metadata.row_group(group).column(index)
    content = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    path.write_bytes(content)


def vouch_for(table: Path) -> None:
    """Make the sidecar of a CSV file name its content as it is now, for tests of what comes after that check."""
    sidecar = table.with_name(f"{table.name}.dpcore.json")
    content = table.read_bytes()
    said = json.loads(sidecar.read_text(encoding="utf-8"))
    said["table"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    sidecar.write_text(json.dumps(said), encoding="utf-8")


@dataclass(frozen=True)
class Finished:
    """What a command said and with which code it ended."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Both streams."""
        return self.out + self.err


class Workplace:
    """A folder with an input, a job file and an output."""

    def __init__(self, folder: Path, capsys: Any) -> None:
        self.folder = folder
        self.job = folder / "job.toml"
        self.source = folder / "in.parquet"
        self.target = folder / "out" / "private.parquet"
        self._capsys = capsys

    def write_job(self, *args: Any, **kwargs: Any) -> None:
        """Write a job on this folder's input and output."""
        self.job.write_text(job_text(self.source, self.target, *args, **kwargs), encoding="utf-8")

    def dpcore(self, *arguments: object) -> Finished:
        """Run the command in this process."""
        from dpcore.cli import run

        self._capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = self._capsys.readouterr()
        return Finished(code, captured.out, captured.err)

    def privatize(self, *arguments: object) -> Finished:
        """Run the job."""
        return self.dpcore("privatize", self.job, *arguments)

    def run(self, *arguments: object) -> Finished:
        """Run the job, of whichever kind it is."""
        return self.privatize(*arguments)

    def estimate(self, *arguments: object) -> Finished:
        """Estimate from the job's output."""
        return self.dpcore("estimate", self.target, *arguments)

    def left_behind(self) -> list[str]:
        """Everything beside the output, hidden files included."""
        return sorted(path.name for path in self.target.parent.iterdir()) if self.target.parent.exists() else []


def refused(place: Workplace, *words: str, arguments: Sequence[object] = ()) -> None:
    """Check that the job ends with exit code 2 and all of `words` in its message, and that it writes nothing."""
    before = sorted(place.folder.rglob("*"))
    done = place.run(*arguments)
    assert done.code == 2, done.said
    for word in words:
        assert word in done.err, (word, done.err)
    assert done.out == ""
    assert "Traceback" not in done.err
    assert sorted(place.folder.rglob("*")) == before


def edit(place: Workplace, old: str, new: str) -> None:
    """Replace a text of the job file, which must be there."""
    text = place.job.read_text(encoding="utf-8")
    assert old in text
    place.job.write_text(text.replace(old, new, 1), encoding="utf-8")


def start(
    *arguments: object, script: str = "from dpcore.cli import main; main()", environment: Mapping[str, str] | None = None, text: bool = True
) -> subprocess.Popen[Any]:
    """Run the command in a process of its own; `script` may break something before it calls `main`."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with_these = None if environment is None else {**os.environ, **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=text, env=with_these)


PEAK = """
import resource, sys
from pathlib import Path
from dpcore.cli import run
code = run(sys.argv[1:])
status = Path("/proc/self/status")
if status.exists():
    # What getrusage says in a child includes what its parent held at the moment of the fork.
    peak = next(int(line.split()[1]) * 1024 for line in status.read_text().splitlines() if line.startswith("VmHWM"))
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(f"peak {peak}", file=sys.stderr)
sys.exit(code)
"""


def peak_memory(*arguments: object) -> tuple[int, int, str]:
    """Run the command; return its exit code, the peak of its resident memory in bytes, and what it said on standard error."""
    process = start(*arguments, script=PEAK)
    _, err = process.communicate()
    return process.returncode, int(err.rpartition("peak ")[2]), err
