"""Results as JSON, in the schema of pytest-benchmark, and back."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpcore._disk.files import AtomicFile, remove_stale
from dpcore._disk.signals import Deferred
from dpcore._version import __version__
from dpcore.bench.bands import Ratio
from dpcore.bench.results import Absent, Broken, Jitter, Results, Row, Timed
from dpcore.errors import JobError, StorageError, reason
from dpcore.pages.printable import json_escaped, printable

FORMAT = 1
"""Format of the part of the JSON that is dpcore's own."""
SCHEMA_VERSION = "5.0.0"
"""Version of pytest-benchmark whose schema this is."""
ROW_FIELDS = ("group", "name", "size", "unit", "threads", "level", "character")
LARGEST_FILE = 1 << 28
"""Bytes; a larger file is refused before it is read."""


def statistics_of(blocks: list[float], calls: int) -> dict[str, Any]:
    """Statistics in the form of pytest-benchmark. A round is a block of turns.

    Parameters
    ----------
    blocks : list of float
        Seconds of a call, at least one.
    calls : int
        Calls of a turn.

    Returns
    -------
    dict
        All the fields of pytest-benchmark.
    """
    data = sorted(blocks)
    q1, _, q3 = statistics.quantiles(data, n=4, method="inclusive") if len(data) > 1 else (data[0], data[0], data[0])
    mean, deviation = statistics.fmean(data), statistics.stdev(data) if len(data) > 1 else 0.0
    low, high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    far = sum(abs(value - mean) > deviation for value in data)
    outside = sum(not low <= value <= high for value in data)
    inside = [value for value in data if low <= value <= high]
    found = {
        "min": data[0], "max": data[-1], "mean": mean, "stddev": deviation, "rounds": len(data), "median": statistics.median(data),
        "iqr": q3 - q1, "q1": q1, "q3": q3, "iqr_outliers": outside, "stddev_outliers": far, "outliers": f"{far};{outside}",
        "ld15iqr": inside[0], "hd15iqr": inside[-1], "ops": 1 / mean if mean else 0.0, "total": math.fsum(data),
        "iterations": calls,
    }  # fmt: skip
    return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in found.items()}


def document(results: Results) -> dict[str, Any]:
    """Return the content of the JSON file.

    Parameters
    ----------
    results : Results
        What was measured.

    Returns
    -------
    dict
        `{machine_info, commit_info, benchmarks, datetime, version, dpcore}`: the first five are those of pytest-benchmark, with one
        benchmark for each side of each row. Its `extra_info` has the row, the blocks, and the ratio to our side with its band.
    """
    return {
        "machine_info": results.machine,
        "commit_info": results.commit,
        "benchmarks": [_entry(row, side) for row in results.rows for side in (row.ours, *row.others)],
        "datetime": results.made,
        "version": SCHEMA_VERSION,
        "dpcore": {
            "format": FORMAT,
            "version": __version__,
            "mode": results.mode,
            "interrupted": results.interrupted,
            "unreached": list(results.unreached),
            "seconds": results.seconds,
            "copy": {"spread": None if math.isnan(results.noise.spread) else results.noise.spread, "times": list(results.noise.times)},
            "absent": [{"package": item.package, "names": list(item.names), "pip": item.pip} for item in results.absent],
            "broken": [asdict(item) for item in results.broken],
        },
    }


def _entry(row: Row, side: Timed) -> dict[str, Any]:
    name = f"{row.title}, {row.level}: {side.name}"
    extra: dict[str, Any] = {name: getattr(row, name) for name in ROW_FIELDS}
    extra |= {
        "side": side.name, "kind": side.kind, "side_size": side.size, "nanoseconds": float(f"{side.nanoseconds:.7g}"), "turns": side.turns,
        "safe": side.safe, "package": side.package, "judges": side.judges, "peak_bytes": side.peak_bytes,
        "cpu_seconds": side.cpu_seconds, "blocks": list(side.blocks),
    }  # fmt: skip
    if side is not row.ours:
        extra["ratio"] = _ratio(row.ratio(side))
    return {
        "group": f"{row.title}, {row.level}",
        "name": name,
        "fullname": f"dpcore bench/{row.key}/{side.name}",
        "params": {"level": row.level, "threads": row.threads, "size": row.size},
        "param": row.level,
        "extra_info": extra,
        "options": {"disable_gc": True, "timer": "perf_counter", "min_rounds": len(side.known), "warmup": True},
        "stats": statistics_of(side.known, side.calls),
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any] | None:
    """The other side's time ÷ ours."""
    if ratio is None:
        return None
    return {
        "value": float(f"{ratio.value:.7g}"), "low": float(f"{ratio.low:.7g}"), "high": float(f"{ratio.high:.7g}"),
        "blocks": ratio.blocks, "coverage": round(ratio.coverage, 4), "verdict": ratio.verdict,
    }  # fmt: skip


def text(results: Results) -> str:
    """Return the JSON file, with a line for each benchmark.

    Parameters
    ----------
    results : Results
        What was measured.
    """
    content = document(results)
    entries = ",\n".join(_json(entry) for entry in content["benchmarks"])
    parts = [f'"{key}": ' + (f"[\n{entries}\n]" if key == "benchmarks" else _json(value)) for key, value in content.items()]
    return json_escaped("{\n" + ",\n".join(parts) + "\n}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def results_of(content: dict[str, Any]) -> Results:
    """Return what a JSON file of `dpcore bench` says.

    Parameters
    ----------
    content : dict
        As `document` returns it.

    Returns
    -------
    Results
        The same results.

    Raises
    ------
    KeyError, TypeError, ValueError
        If it is no such content.
    """
    own = content["dpcore"]
    if own["format"] != FORMAT:
        raise ValueError(f"its format is {own['format']}, and this version of dpcore reads format {FORMAT}")
    sides: dict[tuple[Any, ...], list[Timed]] = {}
    for entry in content["benchmarks"]:
        extra = entry["extra_info"]
        sides.setdefault(tuple(extra[name] for name in ROW_FIELDS), []).append(_side(extra, entry["stats"]["iterations"]))
    return Results(
        rows=tuple(_row(dict(zip(ROW_FIELDS, key, strict=True)), timed) for key, timed in sides.items()),
        machine=content["machine_info"], commit=content["commit_info"], mode=own["mode"], noise=Jitter(tuple(own["copy"]["times"])),
        absent=tuple(Absent(item["package"], tuple(item["names"])) for item in own["absent"]),
        broken=tuple(Broken(**item) for item in own["broken"]), interrupted=own["interrupted"],
        unreached=tuple(own["unreached"]), seconds=own["seconds"],
        made=content["datetime"],
    )  # fmt: skip


def _row(fields: dict[str, Any], timed: list[Timed]) -> Row:
    return Row(**fields, ours=timed[0], others=tuple(timed[1:]))


def _side(extra: dict[str, Any], calls: int) -> Timed:
    blocks = tuple(None if block is None else float(block) for block in extra["blocks"])
    if not any(blocks) or any(block is not None and not 0 < block < math.inf for block in blocks):
        raise ValueError("a time is not a positive number")
    return Timed(
        extra["side"], extra["kind"], int(extra["side_size"]), blocks, int(extra["turns"]), int(calls), safe=bool(extra["safe"]),
        package=extra["package"], judges=bool(extra["judges"]), peak_bytes=extra["peak_bytes"],
        cpu_seconds=extra.get("cpu_seconds"),
    )  # fmt: skip


def read(path: Path) -> Results:
    """Read a JSON file of `dpcore bench`.

    Parameters
    ----------
    path : Path
        The file.

    Raises
    ------
    JobError
        If it is no such file.
    StorageError
        If it cannot be read.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise JobError(f"{path} is too large for a JSON file of dpcore bench")
        stored = path.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {path}{reason(error)}") from None
    try:
        return results_of(json.loads(stored))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise JobError(f"{path} is not a JSON file of dpcore bench ({printable(str(error))[:100]})") from None


def check_place(path: Path) -> None:
    """Raise if no file of this name can be written, before a run that would be lost.

    Parameters
    ----------
    path : Path
        Its name.

    Raises
    ------
    JobError
        If it is a folder.
    StorageError
        If its folder cannot be written.
    """
    if path.is_dir():
        raise JobError(f"--json {path} is a folder; name a file")
    remove_stale(path)
    AtomicFile(path).abort()


def write(path: Path, results: Results) -> None:
    """Write the JSON file: complete, or not at all.

    Parameters
    ----------
    path : Path
        Its name; a file of that name is replaced.
    results : Results
        What was measured.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    with Deferred():
        file = AtomicFile(path)
        try:
            file.write((text(results) + "\n").encode())
            file.commit()
        finally:
            file.abort()
