"""Damages the bytes of an input and runs a command on it, many times, in a process that may die.

Run as `python fuzzing.py FOLDER READERS FIRST STOP FORMAT-COMMAND...`, where READERS is "checked" or "trusting". A mutation is made from
its number alone, so that a number is enough to see it again. Children are forked from this process, which has imported everything; each
runs mutation after mutation until one kills it, and the next goes on behind that.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import resource  # POSIX, as fork is
import signal
import struct
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from support.jobs import COLUMNS, job_text, toml, write_table

COMMANDS = ("privatize", "estimate", "release")
HANG_SECONDS = 100
"""Far more than any run takes; a run that is not back by then counts as hanging."""
NUMBERS = [0, 1, -1, 7, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 2**32, 2**40, 255]
FEW = {"mechanism": "kary", "epsilon": 1.0, "categories": ["a", "b", "c"], "missing": "a", "unknown": "c"}
JOB = {
    "visits": {**COLUMNS["visits"], "missing": 0},
    "income": {**COLUMNS["income"], "missing": 0},
    "label": FEW,
    "text": {**FEW, "mechanism": "unary"},
    "flag": {"mechanism": "binary", "epsilon": 1.0, "missing": True},
    "code": {"mechanism": "hadamard", "epsilon": 1.0, "k": 9, "missing": 0, "unknown": 0},
}
QUERIES = {
    "sum": {"kind": "sum", "column": "visits", "lower": 0, "upper": 9, "missing": 0},
    "labels": {"kind": "histogram", "column": "label", "categories": ["a", "b"], "missing": "a", "unknown": "b"},
    "quantile": {"kind": "quantile", "column": "income", "q": 0.5, "grid": {"start": 0, "stop": 9, "step": 1}, "missing": 0},
    "texts": {"kind": "top_s", "column": "text", "s": 1, "candidates": ["a", "b"]},
}


def table(rows: int = 90) -> pa.Table:
    """Text, labels, lists and nulls: whatever has offsets, indices and bitmaps."""
    index = np.arange(rows)
    nulls = index % 5 == 2
    words = np.array(["a", "b", "c", "elsewhere"], object)[index % 4]
    return pa.table(
        {
            "visits": pa.array(index % 9, mask=nulls),
            "income": pa.array(index / 4, mask=nulls),
            "label": pa.array(words, mask=nulls).dictionary_encode(),
            "text": pa.array(words, mask=nulls),
            "flag": pa.array(index % 3 == 0),
            "code": pa.array(index % 9, pa.int16()),
            "note": pa.array([f'"{i}", a note' for i in index], mask=nulls),
            "state": pa.array(words).dictionary_encode(),
            "tags": pa.array([["x"] * (i % 3) for i in index], mask=nulls),
        }
    )


def mutated(content: bytes, number: int) -> bytes:
    """The content with one to three changes; most keep its length, so that what a reader believes about the rest still holds."""
    rng, data = random.Random(number), bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = place_in(rng, len(data))
        match rng.randrange(10):
            case 0 | 1:
                data[at] ^= 1 << rng.randrange(8)
            case 2 | 3:
                data[at] = rng.randrange(256)
            case 4:
                size = min(rng.randrange(1, 40), len(data) - at)
                data[at : at + size] = bytes(size)
            case 5:
                change_length(rng, data, at)
            case _:
                at -= at % 4
                form = rng.choice(["<i", "<i", "<q"])
                value = struct.pack("<q", rng.choice(NUMBERS))[: struct.calcsize(form)]
                data[at : at + len(value)] = value
    return bytes(data)


def change_length(rng: random.Random, data: bytearray, at: int) -> None:
    """Take bytes away, repeat some, put some in, or cut the file."""
    match rng.randrange(4):
        case 0:
            del data[at : at + rng.randrange(1, 200)]
        case 1:
            data[at:at] = data[at : at + rng.randrange(1, 200)]
        case 2:
            data[at:at] = rng.randbytes(rng.randrange(1, 30))
        case _:
            del data[max(at, 1) :]


def place_in(rng: random.Random, size: int) -> int:
    """Anywhere, or near the start or the end."""
    near = min(size, 1200)
    return max(rng.choice([rng.randrange(size), rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)]), 0)


class Target:
    """A command on one file."""

    def __init__(self, folder: Path, ending: str, command: str) -> None:
        from dpcore.cli import run

        self.run_command = run
        self.source, self.job, self.output = folder / f"in.{ending}", folder / "job.toml", folder / f"out/private.{ending}"
        rows = table()
        keep = [] if ending == "csv" else ["tags"]
        if ending == "parquet":
            pq.write_table(rows, self.source, row_group_size=40, compression="none")
        else:
            write_table(rows.drop_columns(["tags"]) if ending == "csv" else rows, self.source, row_group_rows=40)
        self.job.write_text(
            job_text(self.source, self.output, JOB, keep=["note", "state", *keep], privacy={"max_epsilon": 9.0}, compression="none")
        )
        if command == "release":
            self.job.write_text(self.release())
        self.damaged, self.arguments = self.source, [command, str(self.job), "--overwrite"]
        if command == "estimate":
            code, said = self.run(["privatize", str(self.job)])
            assert code == 0, said
            self.damaged, self.arguments = self.output, ["estimate", str(self.output)]
        self.content = self.damaged.read_bytes()

    def release(self) -> str:
        lines = ["version = 1", "[input]", f"path = {toml(str(self.source))}", "[output]", f"path = {toml(str(self.job) + '.json')}"]
        lines += ["[privacy]", "max_epsilon = 9.0", "[testing]", f'key_hex = "{bytes(32).hex()}"']
        for name, query in QUERIES.items():
            lines += ["[[query]]", f"name = {toml(name)}", "epsilon = 1.0"]
            lines += [
                f"{key} = {{ start = 0, stop = 9, step = 1 }}" if key == "grid" else f"{key} = {toml(value)}"
                for key, value in query.items()
            ]
        return "\n".join(lines)

    def run(self, arguments: list[str]) -> tuple[int, str]:
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = self.run_command(arguments)
        return code, said.getvalue()

    def try_mutation(self, number: int) -> tuple[int, str]:
        content = mutated(self.content, number)
        self.damaged.write_bytes(content)
        sidecar = self.damaged.with_name(f"{self.damaged.name}.dpcore.json")
        if sidecar.exists():
            # Whoever damages a table on purpose writes its digest, too; otherwise nothing behind that check would be tried.
            said = json.loads(sidecar.read_bytes())
            said["table"] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            sidecar.write_text(json.dumps(said), encoding="utf-8")
        return self.run(self.arguments)


def child(target: Target, numbers: range, pipe: int) -> None:
    """Run mutation after mutation; a line for each goes through the pipe as soon as it is done."""
    for number in numbers:
        signal.alarm(HANG_SECONDS)
        code, said = target.try_mutation(number)
        os.write(pipe, (json.dumps([number, code, said[-300:] if code not in (0, 2, 3, 4) else ""]) + "\n").encode())


def fuzz(target: Target, first: int, stop: int) -> dict[str, list[object]]:
    """Run all mutations; return the numbers by how they ended."""
    ends: dict[str, list[object]] = {}
    while first < stop:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            try:
                child(target, range(first, stop), writing)
                os._exit(0)
            except BaseException as error:
                os.write(writing, (json.dumps([None, -1, repr(error)[-300:]]) + "\n").encode())
                os._exit(70)
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8") as lines:
            for line in lines:
                number, code, said = json.loads(line)
                ends.setdefault(str(code), []).append([number, said] if said else number)
                first = first if number is None else number + 1
        _, status = os.waitpid(pid, 0)
        if os.WIFSIGNALED(status):
            ends.setdefault(signal.Signals(os.WTERMSIG(status)).name, []).append(first)
            first += 1
        elif os.WEXITSTATUS(status):
            first += 1
    return ends


def trusting() -> None:
    """The twin: readers that believe what a file says about its offsets and indices."""
    from dpcore.tables.formats import arrow as arrow_input
    from dpcore.tables.formats import parquet as parquet_input

    arrow_input.checked = parquet_input.checked = lambda batch, names: batch.select(list(names))


def main() -> None:
    """Print how the mutations ended, as JSON: for each format and command, the numbers by exit code or signal."""
    folder, readers, first, stop, *targets = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for module in (
        "jobs.privatize",
        "jobs.estimate",
        "query.run",
        "jobs.commands.privatize",
        "jobs.commands.estimate",
        "jobs.commands.release",
    ):
        __import__(f"dpcore.{module}")
    if readers == "trusting":
        trusting()
    print(json.dumps({target: fuzz_one(Path(folder) / target, target, range(int(first), int(stop))) for target in targets}))


def fuzz_one(folder: Path, name: str, numbers: range) -> dict[str, list[object]]:
    """Make the files, see that the command takes them as they are, and damage them."""
    folder.mkdir()
    ending, command = name.split("-")
    # The undamaged run is a child's, too: whoever forks has no thread.
    pid = os.fork()
    if pid == 0:
        target = Target(folder, ending, command)
        code, said = target.run(target.arguments)
        sys.stderr.write(said if code else "")
        sys.stderr.flush()
        os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        raise AssertionError(f"{name}: the undamaged file")
    return fuzz(Prepared(folder, ending, command), numbers.start, numbers.stop)


class Prepared(Target):
    """A target whose files another process has made."""

    def __init__(self, folder: Path, ending: str, command: str) -> None:
        from dpcore.cli import run

        self.run_command = run
        self.source, self.job, self.output = folder / f"in.{ending}", folder / "job.toml", folder / f"out/private.{ending}"
        estimated = command == "estimate"
        self.damaged = self.output if estimated else self.source
        self.arguments = ["estimate", str(self.output)] if estimated else [command, str(self.job), "--overwrite"]
        self.content = self.damaged.read_bytes()


if __name__ == "__main__":
    main()
