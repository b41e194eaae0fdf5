"""Write the tables of speed.md and of the README: `make speed-table` runs `python docs/speed_tables.py`.

They come from `benchmarks/results`, which `make speed-json` measures: a run for each CPU level, `speed-LEVEL.json`, and the jobs on files,
`jobs.json`. A run on a machine that was not quiet is refused. A test checks that tables and runs agree.
A table is between the lines `<!-- speed: NAME -->` and `<!-- end of NAME -->`. The targets are in `speed_goals.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dpcore.bench.bands import ALIKE
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
PAGES = (HERE / "speed.md", HERE / "report.md", HERE.parent / "README.md")
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
LEVELS = ("x86_v4", "x86_v3", "baseline")
"""CPU levels, the best first."""
STEADY = 0.25
"""How much longer a copy may take in a run that is shown, without the fastest and slowest tenth."""
SHOWN_SIZES = (1, 16, 128, 1024, 2**14, 2**17, 10**6, 2**20, 2**24, 10**8)


@dataclass(frozen=True)
class Stored:
    """What was measured.

    Attributes
    ----------
    runs : dict
        A run for each CPU level, by its name, the best first.
    jobs : Results
        The jobs on files, at the best level.
    """

    runs: dict[str, Results]
    jobs: Results

    @property
    def best(self) -> Results:
        """The run at the best level, with the jobs."""
        run = next(iter(self.runs.values()))
        return replace(run, rows=(*run.rows, *self.jobs.rows))

    def lines(self, *groups: str) -> list[Row]:
        """The rows of groups, all levels of a benchmark one after another; a level that has a run of its own is taken from it."""
        rows = [row for level, run in self.runs.items() for row in run.rows if row.level == level or row.level not in self.runs]
        chosen = {(row.key.rpartition("/")[0], row.level): row for row in reversed(rows) if row.group in groups}
        order = {key: place for place, key in enumerate(dict.fromkeys(row.key.rpartition("/")[0] for row in rows))}
        return sorted(
            chosen.values(), key=lambda row: (groups.index(row.group), order[row.key.rpartition("/")[0]], LEVELS.index(row.level))
        )


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


def large(runs: Stored, *groups: str) -> str:
    """Large arrays: the fastest peers of both kinds, and the bound."""
    cells = [
        (
            row.title, f"`{row.level}`", duration(row.ours.nanoseconds), beside(row, peers(row, safe=False)),
            beside(row, peers(row, safe=True)), bound(row),
        )
        for row in runs.lines(*groups)
    ]  # fmt: skip
    return table(("benchmark", "level", "dpcore", "fastest peer that is not safe", "fastest safe peer", "÷ bound"), cells)


def calls(runs: Stored, *groups: str) -> str:
    """Calls on few values, and what a person waits for."""
    rows = [
        (row.title, f"`{row.level}`", duration(row.ours.nanoseconds), "–" if row.judge is None else side_name(row.judge),
         compared(row, row.judge), beside(row, peers(row, safe=False)))
        for row in runs.lines(*groups)
    ]  # fmt: skip
    return table(("call", "level", "time", "bound", "÷ bound", "beside it"), rows)


def curves(runs: Stored) -> str:
    """Times a value against size, at each level."""
    return "\n".join(f"At `{level}`:\n\n{curve(run)}" for level, run in runs.runs.items())


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


def sides(runs: Stored, *groups: str) -> str:
    """Each row with all its sides, at the best level."""
    rows = [
        (row.title, duration(row.ours.nanoseconds), f"{side_name(other)}, {duration(other.nanoseconds)}", compared(row, other))
        for group in groups
        for row in best(runs.best, group)
        for other in row.others
    ]
    return table(("benchmark", "dpcore", "beside it", "ratio"), rows) if rows else "Not in the stored runs.\n"


def threads(runs: Stored) -> str:
    """Several threads beside one, by wall and CPU time, and beside a copy by as many."""
    said = {"compute": "computing", "memory": "memory"}
    cells = [
        (
            row.title, "–" if row.other(COPY) is None else said[row.character], duration(row.ours.nanoseconds), cpu_time(row.ours),
            *((duration(alone.nanoseconds), cpu_time(alone)) if alone is not None else ("–", "–")), compared(row, alone),
            compared(row, row.other(COPY)),
        )
        for row in best(runs.best, "threads")
        for alone in (row.other(ALONE),)
    ]  # fmt: skip
    headings = ("benchmark", "bound by", "time", "CPU", "one thread", "its CPU", "gain", "÷ copy on as many threads")
    return table(headings, cells) if cells else "Not in the stored runs.\n"


def machine(runs: Stored) -> str:
    """Where the numbers come from."""
    results = runs.best
    own = results.machine["dpcore"]
    levels = ", ".join(f"`{level}`" for level in runs.runs)
    lines = [
        f"- {results.machine['cpu']['brand_raw']}, {results.machine['cpu']['count']} cores; {own['compiler']}; "
        f"Python {own['python']}, NumPy {own['numpy']}. Runs at {levels}; tables without a column of levels are at "
        f"`{next(iter(runs.runs))}`.",
        *(f"- {said}: {measured(run)}" for said, run in [*((f"`{level}`", run) for level, run in runs.runs.items()), ("jobs", runs.jobs)]),
    ]
    if results.absent:
        lines.append(f"- Not installed, and so not measured: {', '.join(absent.package for absent in results.absent)}.")
    if results.broken:
        lines.append(f"- Broken: {', '.join(f'{broken.side} in {broken.row}' for broken in results.broken)}.")
    return "\n".join(lines) + "\n"


def measured(run: Results) -> str:
    """When a run was made, how long it took, and how quiet the machine was."""
    when = f"a {run.mode} run of {run.seconds / 60:.0f} minutes, {run.made[:10]}, dpcore {run.machine['dpcore']['version']}."
    return f"{when} {noise_in_words(run)}"


def readme(runs: Stored) -> str:
    """The small table of the README. A comparison without a winner is not in it: it has to be measured again."""
    cells = []
    for label, group, name, numpy in README_ROWS:
        found = {row.level: row for row in runs.lines(group) if row.name == name}
        rows = [found[level] for level in runs.runs if level in found]
        plain = [_won(row, row.other(numpy)) for row in rows]
        others = [_won(row, _fastest(row)) for row in rows]
        if rows and all([*plain, *others]):
            ours = " / ".join(significant(row.ours.nanoseconds, 2) for row in rows)
            cells.append((label.format(f"{rows[0].size:,}"), ours, " / ".join(plain), _library(rows[0]) + " / ".join(others)))
    return table(("", f"dpcore, {' / '.join(f'`{level}`' for level in runs.runs)}", "NumPy †", "another library"), cells)


def _fastest(row: Row) -> Timed | None:
    others = [other for other in row.others if other.kind == "peer" and other.package != "numpy"]
    return min(others, key=lambda other: other.nanoseconds, default=None)


def _library(row: Row) -> str:
    fastest = _fastest(row)
    return "" if fastest is None else f"{side_name(fastest)} "


def _won(row: Row, other: Timed | None) -> str:
    """A peer's time and how many times as fast dpcore is; at least how many, if the band is too wide; nothing if it names no winner."""
    ratio = None if other is None else row.ratio(other)
    if other is None or ratio is None:
        return ""
    if ratio.verdict in {"faster", "slower"}:
        times = f"{significant(ratio.value, 2)} ×"
    elif ratio.blocks > 1 and ratio.low > ALIKE:
        times = f"≥ {significant(ratio.low, 2)} ×"
    else:
        return ""
    return f"{significant(other.nanoseconds, 2)} ({times})"


def stored(folder: Path = STORED) -> Stored:
    """The runs, and the jobs that were timed in a run of their own; what was measured on a machine that was not quiet is refused."""
    runs = {level: steady(folder / f"speed-{level}.json") for level in LEVELS if (folder / f"speed-{level}.json").exists()}
    for level, run in runs.items():
        if run.rows[0].level != level:
            raise SystemExit(f"speed-{level}.json: measured at {run.rows[0].level}")
    return Stored(runs, steady(folder / "jobs.json"))


def steady(path: Path) -> Results:
    """A run of a quiet machine."""
    run = read(path)
    if not run.noise.spread <= STEADY:
        raise SystemExit(f"{path.name}: refused, since {noise_in_words(run)} More than {STEADY:.0%} is too much: measure again.")
    return run


TABLES: dict[str, Callable[[Stored], str]] = {
    "machine": machine,
    "calls": lambda runs: calls(runs, "calls"),
    "interactive": lambda runs: calls(runs, "interactive"),
    "curve": curves,
    "noise": lambda runs: large(runs, "noise"),
    "local": lambda runs: large(runs, "local"),
    "selection": lambda runs: large(runs, "selection", "sums"),
    "distributions": lambda runs: large(runs, "distributions", "minimax"),
    "threads": threads,
    "start": lambda runs: sides(runs, "start"),
    "jobs": lambda runs: sides(runs, "tables"),
    "goals": lambda runs: table(("what", "asked for", "level", "measured", ""), goals(runs)),
    "readme": readme,
}


def goals(runs: Stored) -> list[tuple[str, ...]]:
    """The lines of the targets, at each level; jobs are at the best."""
    first = next(iter(runs.runs))
    lines: dict[str, list[tuple[str, ...]]] = {}
    for level, run in runs.runs.items():
        for what, asked, found, met in goal_lines(runs.best if level == first else run):
            if met or level == first:
                lines.setdefault(what, []).append((what, asked, f"`{level}`", found, met))
    return [line for found in lines.values() for line in found]


def rewritten(text: str, runs: Stored) -> str:
    """A page with its tables as the runs have them."""
    return BLOCK.sub(lambda found: found["start"] + TABLES[found["name"]](runs) + found["end"], text)


def main() -> None:
    """Rewrite the pages."""
    runs = stored()
    for path in PAGES:
        path.write_text(rewritten(path.read_text(encoding="utf-8"), runs), encoding="utf-8")


if __name__ == "__main__":
    main()
