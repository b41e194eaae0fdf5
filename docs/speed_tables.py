"""Write the tables of speed.md and of the README: `make speed-table` runs `python docs/speed_tables.py`.

They come from `benchmarks/results/speed.json` and `jobs.json` beside it, which `make speed-json` measures; a test checks that they agree.
A table is between the lines `<!-- speed: NAME -->` and `<!-- end of NAME -->`. The targets are in `speed_goals.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from dpcore.bench.document import read
from dpcore.bench.page import break_even
from dpcore.bench.results import Results, Row, Timed
from dpcore.bench.scaling import ALONE, COPY
from dpcore.bench.table import band, cpu_time, duration, noise_in_words, side_name, significant

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from speed_goals import goal_lines  # noqa: E402 - beside this file, also for a program that runs this one

sys.path.remove(str(HERE))

STORED = HERE.parent / "benchmarks" / "results"
PAGES = (HERE / "speed.md", HERE.parent / "README.md")
BLOCK = re.compile(r"(?P<start>^<!-- speed: (?P<name>[a-z-]+) -->\n).*?(?P<end>^<!-- end of (?P=name) -->$)", re.MULTILINE | re.DOTALL)
README_ROWS = (
    ("Laplace noise", "noise", "laplace", "NumPy laplace (PCG64)"),
    ("Gaussian noise", "noise", "gaussian", "NumPy normal (PCG64)"),
    ("a randomised answer, 16 categories", "local", "KaryResponse k=16, int64", "NumPy, uniform over all k"),
    ("exponential mechanism", "selection", "exponential_mechanism", "NumPy gumbel + argmax"),
    ("the best 100 of {} scores", "selection", "top_s gumbel, s=100", "NumPy gumbel + argpartition"),
)
BELOW = {"the key alone": "key: os.urandom(32)", "the call without values": "call: no values"}
"""What stands between dpcore and NumPy where arrays are short."""
SHOWN_SIZES = (1, 16, 128, 1024, 2**14, 2**17, 10**6, 2**20, 2**24, 10**8)


def best(results: Results, group: str) -> list[Row]:
    """The rows of a group at the best level."""
    seen: dict[str, str] = {}
    return [row for row in results.rows if row.group == group and seen.setdefault(row.key.rpartition("/")[0], row.level) == row.level]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [f"| {' | '.join(headings)} |", "|---" * len(headings) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"


def compared(row: Row, other: Timed | None) -> str:
    """A ratio with its band, or why there is none: how many times as fast as a peer, or as long as a bound."""
    ratio = None if other is None else row.ratio(other)
    if other is None or ratio is None:
        return "–"
    shown = ratio.inverse if other.kind == "bound" else ratio
    if ratio.blocks < 2:
        return f"{significant(shown.value, 2)} (one block: no band)"
    clear = other.kind == "bound" or ratio.verdict in {"faster", "slower"}
    wide = ratio.verdict == "too noisy"
    said = ": too wide" if wide else "" if clear else ": no winner"
    return f"{significant(shown.value, 2)} ({band(shown)}{said})"


def of_levels(results: Results, row: Row) -> str:
    """The times at the other levels."""
    others = [other for other in results.rows if other.key.rpartition("/")[0] == row.key.rpartition("/")[0] and other is not row]
    return "; ".join(f"{other.level} {duration(other.ours.nanoseconds)}" for other in others) or "–"


def peers(row: Row, *, safe: bool) -> Timed | None:
    """The fastest peer of a kind."""
    found = [other for other in row.others if other.kind == "peer" and other.safe is safe and row.ratio(other) is not None]
    return min(found, key=lambda other: other.nanoseconds, default=None)


def beside(row: Row, other: Timed | None) -> str:
    """A peer with its time and the ratio."""
    return "–" if other is None else f"{side_name(other)}, {duration(other.nanoseconds)}: {compared(row, other)}"


def bound(row: Row) -> str:
    """The bound with the ratio to it."""
    return "–" if row.judge is None or row.judge.kind != "bound" else f"{row.judge.name}: {compared(row, row.judge)}"


def large(results: Results, *groups: str) -> str:
    """Large arrays: the fastest peers of both kinds, and the bound."""
    rows = [row for group in groups for row in best(results, group)]
    cells = [
        (
            f"{row.title}", duration(row.ours.nanoseconds), of_levels(results, row), beside(row, peers(row, safe=False)),
            beside(row, peers(row, safe=True)), bound(row),
        )
        for row in rows
    ]  # fmt: skip
    return table(("benchmark", "dpcore", "other levels", "fastest peer that is not safe", "fastest safe peer", "÷ bound"), cells)


def calls(results: Results) -> str:
    """Calls on few values."""
    rows = [
        (row.name, duration(row.ours.nanoseconds), compared(row, row.judge), beside(row, peers(row, safe=False)))
        for row in best(results, "calls")
    ]
    return table(("call", "time", "÷ `os.urandom(32)`", "beside it"), rows)


def curve(results: Results) -> str:
    """Times a value against size."""
    every = best(results, "curve")
    rows = [row for row in every if row.size in SHOWN_SIZES]
    sizes = sorted({row.size for row in rows})
    names = list(dict.fromkeys(row.name for row in rows))
    cells = []
    for name in names:
        by = {row.size: row for row in rows if row.name == name}
        cells.append([name, *(duration(by[size].ours.nanoseconds) if size in by else "–" for size in sizes)])
        cells.append(["× NumPy, unsafe", *(_ratio(by.get(size), "NumPy, unsafe") for size in sizes)])
        cells.append(["÷ (key + keystream + copy)", *(_ratio(by.get(size), "key + keystream + copy") for size in sizes)])
        cells.extend([said, *(_of_a_value(by.get(size), side) for size in sizes)] for said, side in BELOW.items())
    even = [f"- `{name}`: {break_even(sorted((row for row in every if row.name == name), key=lambda row: row.size))}" for name in names]
    return table(("function", *(f"{size:,}" for size in sizes)), cells) + "\n" + "\n".join(even) + "\n"


def _of_a_value(row: Row | None, name: str) -> str:
    """The time of another side ÷ the number of values."""
    other = None if row is None else row.other(name)
    return "–" if row is None or other is None else duration(other.seconds * 1e9 / row.size)


def _ratio(row: Row | None, name: str) -> str:
    other = None if row is None else row.other(name)
    ratio = None if row is None or other is None else row.ratio(other)
    if ratio is None or other is None:
        return "–"
    return significant(ratio.inverse.value if other.kind == "bound" else ratio.value, 2)


def sides(results: Results, *groups: str) -> str:
    """Each row with all its sides."""
    rows = [
        (row.title, duration(row.ours.nanoseconds), f"{side_name(other)}, {duration(other.nanoseconds)}", compared(row, other))
        for group in groups
        for row in best(results, group)
        for other in row.others
    ]
    return table(("benchmark", "dpcore", "beside it", "ratio"), rows) if rows else "Not in the stored run.\n"


def threads(results: Results) -> str:
    """Several threads beside one, by wall and CPU time, and beside a copy by as many."""
    said = {"compute": "computing", "memory": "memory"}
    cells = [
        (
            row.title, "–" if row.other(COPY) is None else said[row.character], duration(row.ours.nanoseconds), cpu_time(row.ours),
            *((duration(alone.nanoseconds), cpu_time(alone)) if alone is not None else ("–", "–")), compared(row, alone),
            compared(row, row.other(COPY)),
        )
        for row in best(results, "threads")
        for alone in (row.other(ALONE),)
    ]  # fmt: skip
    headings = ("benchmark", "bound by", "time", "CPU", "one thread", "its CPU", "gain", "÷ copy on as many threads")
    return table(headings, cells) if cells else "Not in the stored run.\n"


def machine(results: Results) -> str:
    """Where the numbers come from."""
    own = results.machine["dpcore"]
    levels = ", ".join(f"`{level}`" for level in reversed(own["cpu_levels_available"]))
    when = f"A {results.mode} run of {results.seconds / 60:.0f} minutes, {results.made[:10]}, dpcore {own['version']}."
    lines = [
        f"- {results.machine['cpu']['brand_raw']}, {results.machine['cpu']['count']} cores; CPU levels {levels}; {own['compiler']}; "
        f"Python {own['python']}, NumPy {own['numpy']}.",
        f"- {when} {noise_in_words(results)}",
    ]
    if results.absent:
        lines.append(f"- Not installed, and so not measured: {', '.join(absent.package for absent in results.absent)}.")
    if results.broken:
        lines.append(f"- Broken: {', '.join(f'{broken.side} in {broken.row}' for broken in results.broken)}.")
    return "\n".join(lines) + "\n"


def readme(results: Results) -> str:
    """The small table of the README."""
    cells = []
    for label, group, name, numpy in README_ROWS:
        row = next((row for row in best(results, group) if row.name == name), None)
        if row is None:
            continue
        others = [other for other in row.others if other.kind == "peer" and other.package != "numpy"]
        fastest = min(others, key=lambda other: other.nanoseconds, default=None)
        plain = row.other(numpy)
        of_numpy = "–" if plain is None else f"{significant(plain.nanoseconds, 2)}{_times(row, plain)}"
        other = "–" if fastest is None else f"{side_name(fastest)} {significant(fastest.nanoseconds, 2)}{_times(row, fastest)}"
        cells.append((label.format(f"{row.size:,}"), significant(row.ours.nanoseconds, 2), of_numpy, other))
    return table(("", "dpcore", "NumPy †", "another library"), cells)


def _times(row: Row, other: Timed) -> str:
    ratio = row.ratio(other)
    return f" ({significant(ratio.value, 2)} ×)" if ratio is not None and ratio.verdict in {"faster", "slower"} else " (no winner)"


def stored() -> Results:
    """The run, and the jobs that were timed in a run of their own."""
    results, jobs = read(STORED / "speed.json"), read(STORED / "jobs.json")
    return replace(results, rows=(*results.rows, *jobs.rows))


TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "calls": calls,
    "curve": curve,
    "noise": lambda results: large(results, "noise"),
    "local": lambda results: large(results, "local"),
    "selection": lambda results: large(results, "selection", "sums"),
    "distributions": lambda results: large(results, "distributions", "minimax"),
    "threads": threads,
    "start": lambda results: sides(results, "start"),
    "jobs": lambda results: sides(results, "tables"),
    "goals": lambda results: table(("what", "asked for", "measured", ""), goal_lines(results)),
    "readme": readme,
}


def rewritten(text: str, results: Results) -> str:
    """A page with its tables as the results have them."""
    return BLOCK.sub(lambda found: found["start"] + TABLES[found["name"]](results) + found["end"], text)


def main() -> None:
    """Rewrite the pages."""
    results = stored()
    for path in PAGES:
        path.write_text(rewritten(path.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
