"""The page of `dpcore bench --report`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpcore._version import __version__
from dpcore.bench.bands import WIDEST
from dpcore.bench.document import document
from dpcore.bench.machine import identity
from dpcore.bench.scaling import COPY
from dpcore.bench.table import UNSAFE, band, cpu_time, duration, noise_in_words, notes, shown_ratio, side_name, significant, verdict
from dpcore.pages.page import Pages

if TYPE_CHECKING:
    from dpcore.bench.results import Results, Row, Timed

HEADLINE = ("noise", "local", "selection", "sums", "distributions", "minimax")
"""Groups of the table at the top."""
BOUND_BY = {"compute": "computing", "memory": "memory"}
"""Rows of several threads, by what they can gain."""


class BenchPages(Pages):
    """The files of `dpcore bench --report DIR`; `write` takes the results."""

    template = "bench"

    def content(self, subject: Results) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Return the document and the content of the page.

        Parameters
        ----------
        subject : Results
            What was measured.

        Returns
        -------
        document : mapping
            The JSON file.
        shown : dict
            Tables and plots.
        """
        best = _at_best_level(subject.rows)
        shown = {
            "version": __version__,
            "mode": subject.mode,
            "machine": _machine(subject),
            "noise": noise_in_words(subject),
            "notes": list(notes(subject))[1:],
            "unsafe": UNSAFE,
            "widest": significant(WIDEST, 2),
            "headline": _headline(best),
            "calls": _calls(best),
            "curves": _curves(best),
            "threads": _threads(best),
            "levels": _levels(subject.rows),
            "memory": _memory(best),
            "jobs": _all_lines(row for row in best if row.group == "tables"),
            "start": _all_lines(row for row in best if row.group == "start"),
            "every": _all_lines(subject.rows),
        }
        return document(subject), shown


def _machine(results: Results) -> list[tuple[str, str]]:
    own, told = results.machine.get("dpcore", {}), identity(results.machine)
    names = [(name, value) for name, value in told.items() if value not in {None, ""}]
    more = [
        ("random source", own.get("secure_cipher")), ("governor", own.get("governor")), ("compiler", own.get("compiler")),
        ("Python", own.get("python")), ("NumPy", own.get("numpy")), ("commit", results.commit.get("id")),
    ]  # fmt: skip
    dirty = " with changes" if results.commit.get("dirty") else ""
    return [(name, f"{value}{dirty if name == 'commit' else ''}") for name, value in (*names, *more) if value]


def _at_best_level(rows: Iterable[Row]) -> list[Row]:
    """The rows at the level that comes first, which is the best one."""
    seen: dict[str, str] = {}
    return [row for row in rows if seen.setdefault(row.key.rpartition("/")[0], row.level) == row.level]


def _line(row: Row, other: Timed) -> dict[str, Any]:
    ratio = shown_ratio(row, other)
    return {
        "other": side_name(other),
        "time": duration(other.nanoseconds),
        "ratio": "–" if ratio is None else significant(ratio.value),
        "times": None if ratio is None else ratio.value,
        "band": "–" if ratio is None or ratio.blocks < 2 else band(ratio),
        "verdict": verdict(row, other),
        "unclear": "one block" if ratio is None or ratio.blocks < 2 else "too wide" if other.kind == "bound" else "no winner",
        "is_clear": ratio is not None and (other.kind == "bound" or ratio.verdict in {"faster", "slower"}) and ratio.verdict != "too noisy",
    }


def _all_lines(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows with all their sides."""
    return [
        {
            "name": row.title, "level": row.level, "unit": row.unit, "time": duration(row.ours.nanoseconds),
            "sides": [_line(row, other) for other in row.others],
        }
        for row in rows
    ]  # fmt: skip


def _fastest(row: Row, *, safe: bool | None = None) -> Timed | None:
    peers = [other for other in row.others if other.kind == "peer" and row.ratio(other) is not None and safe in {None, other.safe}]
    return min(peers, key=lambda other: other.nanoseconds, default=None)


def _headline(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """By group, for each benchmark with a peer: the fastest of all, the fastest whose numbers are safe, and the bound."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        fastest, safe, judge = _fastest(row), _fastest(row, safe=True), row.judge
        if row.group not in HEADLINE or fastest is None:
            continue
        found.setdefault(row.group, []).append({
            "name": row.title, "unit": row.unit, "time": duration(row.ours.nanoseconds), "fastest": _line(row, fastest),
            "safe": None if safe is None or safe is fastest else _line(row, safe),
            "bound": None if judge is None or judge.kind != "bound" else _line(row, judge),
        })  # fmt: skip
    return [{"name": name, "rows": lines, "told": _told(lines)} for name, lines in found.items()]


def _told(lines: Sequence[dict[str, Any]]) -> str:
    """How many times as fast as the fastest package a group is, from the least to the most."""
    times = [line["fastest"]["times"] for line in lines if line["fastest"]["times"] is not None]
    if not times:
        return ""
    least, most = significant(min(times), 2), significant(max(times), 2)
    return f"{least} to {most} times as fast as the fastest package" if least != most else f"{least} times as fast as the fastest package"


def _calls(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        if row.group == "calls" and row.judge is not None:
            peer = _fastest(row)
            found.append({
                "name": row.name, "time": duration(row.ours.nanoseconds), "key": _line(row, row.judge),
                "peer": None if peer is None else _line(row, peer),
            })  # fmt: skip
    return found


def _curves(rows: Sequence[Row]) -> dict[str, Any]:
    curves: dict[str, list[Row]] = {}
    for row in rows:
        if row.group == "curve":
            curves.setdefault(row.name, []).append(row)
    drawn = {name: sorted(points, key=lambda row: row.size) for name, points in curves.items() if len(points) > 1}
    if not drawn:
        return {}
    from dpcore.bench.plots import bound_figure, curve_figure

    return {
        "figures": [{"name": name, "plot": curve_figure(name, points), "even": break_even(points)} for name, points in drawn.items()],
        "bound": bound_figure(drawn),
    }


def break_even(points: Sequence[Row]) -> str:
    """From which size on dpcore is faster than NumPy, in words.

    Parameters
    ----------
    points : sequence of Row
        A curve, by size.
    """
    verdicts = [(row.size, ratio) for row in points if (other := row.other("NumPy, unsafe")) and (ratio := row.ratio(other)) is not None]
    slower = [size for size, ratio in verdicts if ratio.low <= 1]
    if not verdicts:
        return "It was not measured beside NumPy."
    if not slower:
        return "It is faster than NumPy at every size."
    later = [size for size, _ in verdicts if size > slower[-1]]
    if not later:
        return "At the largest size it is not clearly faster than NumPy."
    return f"It is faster than NumPy from {later[0]:,} values on; the size measured before is {slower[-1]:,}."


def _threads(rows: Sequence[Row]) -> dict[str, Any]:
    found = [row for row in rows if row.group == "threads" and row.others]
    if not found:
        return {}
    from dpcore.bench.plots import scaling_figure, thread_figure

    most = max(row.threads for row in found)
    parts = {said: [row for row in found if row.character == character] for character, said in BOUND_BY.items()}
    return {
        "plot": thread_figure([row for row in found if row.threads == most]),
        "scaling": [
            {"kind": said, "plot": scaling_figure(rows, f"Gain against threads, bound by {said}")} for said, rows in parts.items() if rows
        ],
        "rows": [_thread_line(row, said) for said, rows in parts.items() for row in rows],
    }


def _thread_line(row: Row, said: str) -> dict[str, Any]:
    """A row of several threads: wall and CPU time, on them and on one, and a copy by as many."""
    alone, copy = row.others[0], row.other(COPY)
    return {
        "name": row.title, "bound": said, "wall": duration(row.ours.nanoseconds), "cpu": cpu_time(row.ours),
        "alone": duration(alone.nanoseconds), "alone_cpu": cpu_time(alone), "gain": _line(row, alone),
        "beside_copy": None if copy is None else _line(row, copy),
    }  # fmt: skip


def _levels(rows: Sequence[Row]) -> dict[str, Any]:
    """Times of the benchmarks that ran at several CPU levels."""
    every = list(dict.fromkeys(row.level for row in rows))
    times: dict[str, dict[str, str]] = {}
    for row in rows:
        times.setdefault(row.title, {})[row.level] = duration(row.ours.nanoseconds)
    shown = [{"name": name, "times": [by.get(level, "–") for level in every]} for name, by in times.items() if len(by) > 1]
    return {"names": every, "rows": shown} if shown else {}


def _memory(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Most memory that a call allocates, for a unit, beside its peers."""
    found = []
    for row in rows:
        others = [f"{side_name(other)}: {_bytes(other)}" for other in row.others if other.kind == "peer" and other.peak_bytes is not None]
        if row.group != "curve" and row.ours.peak_bytes is not None and others:
            found.append({"name": row.title, "ours": _bytes(row.ours), "others": "; ".join(others)})
    return found


def _bytes(side: Timed) -> str:
    each = (side.peak_bytes or 0) / side.size
    return "under 0.01 bytes" if each < 0.01 else f"{significant(each)} bytes"
