"""The targets that the project set for its speed, and whether a run meets them. They are shown in speed.md only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dpcore.bench.curve import MKL
from dpcore.bench.interactive import ALONE as PACKAGES
from dpcore.bench.jobs import AGGREGATED, BY_POLARS, COPIED, ONE_FILE, READ, WITHOUT_GROUPS
from dpcore.bench.noise import ON_AES_NI, ONE_SCALE
from dpcore.bench.results import Results, Row
from dpcore.bench.scaling import ALONE, COPY
from dpcore.bench.table import duration, significant

KEY = "os.urandom(32)"
MICROSECOND, MILLISECOND = 1e3, 1e6
OF_RECORDS = "copy of the records"


@dataclass(frozen=True)
class Goal:
    """A target for some rows.

    Attributes
    ----------
    what, asked : str
        In words.
    of : callable
        Whether it is about a row.
    excess : callable
        From a row to what was measured ÷ what is allowed: at most 1 if the row meets it; None if it cannot be said.
    """

    what: str
    asked: str
    of: Callable[[Row], bool]
    excess: Callable[[Row], float | None]


def seconds(row: Row, name: str) -> float | None:
    """Seconds of a unit of another side."""
    other = row.other(name)
    return None if other is None else other.seconds / other.size


def ours(row: Row) -> float:
    """Our seconds of a unit."""
    return row.ours.seconds / row.size


def by_key(times: float) -> Callable[[Row], float | None]:
    """Allow so many times (five keys and a microsecond)."""

    def excess(row: Row) -> float | None:
        key = seconds(row, KEY)
        return None if key is None else ours(row) / (times * (5 * key + 1e-6))

    return excess


def at_most(nanoseconds: float) -> Callable[[Row], float | None]:
    """Allow so much time."""
    return lambda row: ours(row) * 1e9 / nanoseconds


def times(name: str, factor: float) -> Callable[[Row], float | None]:
    """Allow so many times another side's time; of the blocks' ratios the median counts."""

    def excess(row: Row) -> float | None:
        other = row.other(name)
        ratio = None if other is None else row.to_bound(other)
        return None if ratio is None else ratio.value / factor

    return excess


def gain(row: Row) -> float | None:
    """Ask for 0.9 × the threads, up to 4."""
    alone = row.other(ALONE)
    ratio = None if alone is None else row.ratio(alone)
    return None if ratio is None else 0.9 * min(4, row.threads) / ratio.value


def of_threads(character: str) -> Callable[[Row], bool]:
    """Rows of several threads that are bound by computing, or by the memory."""
    return lambda row: row.group == "threads" and row.character == character


def of_tables(*starts: str) -> Callable[[Row], bool]:
    """Jobs on files whose names start so."""
    return lambda row: row.group == "tables" and row.name.startswith(starts)


def asked_by_people(*starts: str) -> Callable[[Row], bool]:
    """What a person waits for, by the start of the name."""
    return lambda row: row.group == "interactive" and row.name.startswith(starts)


def at_x86_v3(name: str) -> Callable[[Row], bool]:
    """Noise on large arrays at the level with AVX2."""
    return lambda row: row.group == "noise" and row.name == name and row.level == "x86_v3"


def of_few_values(row: Row) -> bool:
    """Whether a row is a call of a noise function on a scalar or up to 16 values."""
    return row.group == "calls" and row.name.startswith(("laplace", "gaussian", "discrete_")) and "1,000" not in row.name


GOALS = (
    Goal("noise: a scalar, or up to 16 values", f"≤ 5 × `{KEY}` + 1 µs",
         of_few_values, by_key(1)),
    Goal("release, privatize and selection, 100 records", "≤ twice that",
         lambda row: row.group == "calls" and any(word in row.name for word in (".release", ".privatize", "100 scores")), by_key(2)),
    Goal("estimate of an aggregate", "≤ 30 µs", lambda row: row.group == "calls" and ".estimate" in row.name, at_most(30 * MICROSECOND)),
    Goal("constructing a mechanism", "≤ 3 µs", lambda row: row.group == "calls" and row.name.endswith("(…)"), at_most(3 * MICROSECOND)),
    Goal("from 1,024 values on, against NumPy's unsafe way", "never slower", lambda row: row.group == "curve" and row.size >= 1024,
         times("NumPy, unsafe", 1.0)),
    Goal("128 values, against NumPy's unsafe way", "not slower", lambda row: row.group == "curve" and row.size == 128,
         times("NumPy, unsafe", 1.0)),
    Goal("noise on large arrays ÷ (ChaCha20 keystream + copy)", "≤ 1.6", lambda row: row.group == "noise" and "," not in row.name,
         times("ChaCha20 keystream + copy", 1.6)),
    Goal("a row of scales for all rows ÷ one scale", "≤ 1.3", lambda row: row.group == "noise" and "scales in one call" in row.name,
         times(ONE_SCALE, 1.3)),
    Goal("a scale for each value ÷ one scale", "≤ 1.3", lambda row: row.group == "noise" and "a scale for each" in row.name,
         times(ONE_SCALE, 1.3)),
    Goal("threads, bound by computing", "≥ 0.9 × threads, up to 4", of_threads("compute"), gain),
    Goal("threads, bound by the memory ÷ a copy on as many threads", "≤ 1.1", of_threads("memory"), times(COPY, 1.1)),
    Goal("`import dpcore`, `from dpcore import noise` ÷ `import numpy`, CPU time", "≤ 1.3",
         lambda row: row.group == "start" and "import" in row.name, times("import numpy", 1.3)),
    Goal("`dpcore --help`, `dpcore info`, CPU time", "≤ 0.25 s", lambda row: row.name in {"dpcore --help", "dpcore info"}, at_most(0.25e9)),
    Goal("`privatize` ÷ pyarrow reading and writing the private table", "≤ 1.0",
         of_tables("dpcore privatize, 4"), times(COPIED, 1.0)),
    Goal("5,000 columns ÷ pyarrow reading and writing the private table", "≤ 1.5", of_tables("dpcore privatize, 5,000 columns"),
         times(COPIED, 1.5)),
    Goal("`release` and `estimate` ÷ reading the columns", "≤ 1.3",
         of_tables("dpcore release, 5", "dpcore estimate"), times(READ, 1.3)),
    Goal("row groups of 1,000 rows ÷ one file", "≤ 1.5", of_tables("dpcore privatize, row groups", "dpcore release, row groups"),
         times(ONE_FILE, 1.5)),
    Goal("units ÷ DuckDB's own aggregation", "≤ 1.5", of_tables("dpcore release, units, "), times(AGGREGATED, 1.5)),
    Goal("units with groups ÷ units", "≤ 2", of_tables("dpcore release, units with groups"), times(WITHOUT_GROUPS, 2.0)),
    Goal("the first question of a process, and a release from the shell ÷ importing the packages that they need, CPU time", "≤ 1.3",
         asked_by_people("first question", "dpcore release"), times(PACKAGES, 1.3)),
    Goal("a filtered question about 1,000 rows", "≤ 20 ms", asked_by_people("a mean where"), at_most(20 * MILLISECOND)),
    Goal("100 different filtered questions about 100,000 rows", "≤ 4 s", asked_by_people("100 different"), at_most(4000 * MILLISECOND)),
    Goal("a question with a unit about 1,000 rows", "≤ 12 ms", asked_by_people("a mean, units"), at_most(12 * MILLISECOND)),
    Goal("a plain question about 1,000 rows", "≤ 3 ms", asked_by_people("a mean, 1,000"), at_most(3 * MILLISECOND)),
    Goal("a mechanism, its accuracy or noise at new parameters", "≤ 2 ms",
         lambda row: row.group == "interactive" and " new " in row.name and row.unit == "call", at_most(2 * MILLISECOND)),
    *(Goal(f"{name} on large arrays with AVX2 ÷ (keystream of AES-NI + copy)", f"≤ {factor}", at_x86_v3(name), times(ON_AES_NI, factor))
      for name, factor in (("laplace", 1.6), ("gaussian", 1.8), ("discrete_laplace", 1.7), ("discrete_gaussian σ=1", 1.5),
                           ("discrete_gaussian σ=10", 1.8), ("discrete_gaussian σ=1000", 1.8))),
    Goal("Gaussian noise against MKL's inversion, which is not safe, from 10⁶ values on", "never slower",
         lambda row: row.name == "gaussian" and row.size >= 10**6, times(MKL, 1.0)),
    Goal("1,024 values of Gaussian noise against MKL's inversion", "≤ 1.5",
         lambda row: row.group == "curve" and row.name == "gaussian" and row.size == 1024, times(MKL, 1.5)),
    Goal("five values, an integer scale for each", "≤ 12 µs", asked_by_people("discrete_laplace, 5", "discrete_gaussian, 5"),
         at_most(12 * MICROSECOND)),
    Goal("`clipped_sum` of 5 values", "≤ 8 µs", lambda row: row.name == "clipped_sum, 5 values", at_most(8 * MICROSECOND)),
    Goal("`clipped_sum` of 5 values of polars", "≤ 40 µs", asked_by_people("clipped_sum, 5 values of"), at_most(40 * MICROSECOND)),
    Goal("a mean by 10⁵ groups ÷ polars", "≤ 2", lambda row: row.name.endswith("a mean by 100,000 groups"), times(BY_POLARS, 2.0)),
    Goal("a mean by 10⁶ groups of 10⁶ rows", "≤ 3 s", lambda row: row.name.endswith("a mean by 1,000,000 groups"), at_most(3000.0)),
    Goal("2,000 files ÷ reading the columns", "≤ 1.3", lambda row: row.name == "dpcore release, 2,000 files", times(READ, 1.3)),
    Goal("2,000 files with units ÷ reading the columns", "≤ 1.8", lambda row: row.name == "dpcore release, 2,000 files, units",
         times(READ, 1.8)),
    Goal("LocalHashing, 16 categories ÷ copy", "≤ 4", lambda row: row.group == "local" and row.name == "LocalHashing k=16",
         times(OF_RECORDS, 4.0)),
    Goal("HadamardResponse, 16 categories ÷ copy", "≤ 3", lambda row: row.group == "local" and row.name == "HadamardResponse k=16",
         times(OF_RECORDS, 3.0)),
    Goal("`noisy_argmax` of 10⁵ scores ÷ argmax", "≤ 2", lambda row: row.name == "noisy_argmax laplace" and row.size == 10**5,
         times("argmax, no noise", 2.0)),
    Goal("`BinarySearchEstimator(step=\"tuned\")`, n = 10⁷, 100 points", "≤ 3 s", lambda row: row.name.startswith("tuned step"),
         at_most(3000 * MILLISECOND)),
)  # fmt: skip


def goal_lines(results: Results) -> Iterator[tuple[str, str, str, str]]:
    """A line for each target: what, the limit, what was measured, and whether it is met, at the best level."""
    seen: dict[str, str] = {}
    rows = [row for row in results.rows if seen.setdefault(row.key.rpartition("/")[0], row.level) == row.level]
    for goal in (*GOALS, *_out_of_cache(rows), *_thousand(rows)):
        found = [(row, excess) for row in rows if goal.of(row) and (excess := goal.excess(row)) is not None]
        if not found:
            yield goal.what, goal.asked, "not in the stored run", ""
            continue
        worst, excess = max(found, key=lambda pair: pair[1])
        met = sum(value <= 1 for _, value in found)
        share = f"{significant(excess, 2)} of what is allowed ({duration(ours(worst) * 1e9)})"
        said = f"{met} of {len(found)}; the worst, `{worst.title}`, is at {share}"
        yield goal.what, goal.asked, said, "met" if met == len(found) else "not met"


def _out_of_cache(rows: list[Row]) -> Iterator[Goal]:
    """Large arrays may cost one copy more than work in the cache."""
    inside = {row.name.removesuffix(", in cache"): ours(row) for row in rows if row.group == "noise" and row.name.endswith(", in cache")}

    def excess(row: Row) -> float | None:
        copy = seconds(row, "copy")
        return None if copy is None else ours(row) / (inside[row.name] + copy)

    yield Goal("noise on large arrays", "≤ in the cache + 1.0 × copy", lambda row: row.group == "noise" and row.name in inside, excess)


def _thousand(rows: list[Row]) -> Iterator[Goal]:
    """1,000 values in one call may cost half more than in an array of a million, beside what a call may cost."""
    sizes = [row.size for row in rows if row.group == "curve" and row.size in {10**6, 1 << 20}]
    million = {row.name: ours(row) for row in rows if row.group == "curve" and row.size == max(sizes, default=0)}

    def name(row: Row) -> str:
        return row.name.removesuffix(", 1,000 values")

    def excess(row: Row) -> float | None:
        key = seconds(row, KEY)
        return None if key is None else ours(row) / (1500 * million[name(row)] + 5 * key + 1e-6)

    yield Goal(
        "noise, 1,000 values", "≤ 1.5 × (1,000 × a value of a million) + what a call may take",
        lambda row: row.group == "calls" and name(row) in million, excess,
    )  # fmt: skip
