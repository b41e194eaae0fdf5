"""Rows of results as text: how a time, a ratio with its band, and a verdict are written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from dpcore.bench.bands import Ratio
from dpcore.bench.results import Results, Row, Timed
from dpcore.pages.numbers import written

HEADINGS = ("benchmark", "level", "time", "beside", "its time", "times", "band", "")
RIGHT = ("time", "its time", "times")
"""Headings of columns of numbers."""
UNSAFE = "†"
"""Marks a peer whose numbers are not safe to release."""
UNITS = ((1.0, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s"))
QUIET, BUSY = 0.1, 0.5
"""Spreads of a copy below which a machine is quiet, or only busy."""
FOOTNOTE = (
    f"{UNSAFE} not safe to release: the law is rounded, or an attacker can predict the generator.\n"
    "times: beside a peer, how many times as fast dpcore is; beside a bound, how many times as long it takes. The band in brackets "
    "contains the median of all such blocks of turns with probability 0.95 or more. One block: measured once, so there is no band. Too "
    "wide: other work disturbed the blocks, and only the lower end is certain. No winner: the band comes within 2 % of 1."
)


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without an exponent.

    Parameters
    ----------
    value : float
        A positive number.
    digits : int, default 3
        How many.

    Examples
    --------
    >>> significant(2.3456), significant(0.0123), significant(11.2), significant(65432.1)
    ('2.35', '0.0123', '11.2', '65,400')
    """
    rounded = float(f"{value:.{digits}g}")
    decimals = min(12, max(0, digits - 1 - math.floor(math.log10(rounded)))) if rounded > 0 else 0
    return written(rounded, f",.{decimals}f")


def duration(nanoseconds: float) -> str:
    """A time with its unit.

    Parameters
    ----------
    nanoseconds : float
        The time.

    Examples
    --------
    >>> duration(2.345), duration(12_345.0), duration(2.5e9)
    ('2.35 ns', '12.3 µs', '2.50 s')
    """
    factor, unit = next((pair for pair in reversed(UNITS) if nanoseconds >= pair[0]), UNITS[0])
    return f"{significant(nanoseconds / factor)} {unit}"


def cpu_time(side: Timed) -> str:
    """CPU time of a unit, all threads together, or a dash.

    Parameters
    ----------
    side : Timed
        A side of a row.
    """
    return "–" if not side.cpu_seconds else duration(side.cpu_seconds * 1e9 / side.size)


def shown_ratio(row: Row, other: Timed) -> Ratio | None:
    """The ratio that tables show: a peer's time ÷ ours, but ours ÷ that of a bound.

    Parameters
    ----------
    row : Row
        The row.
    other : Timed
        Its other side.
    """
    return row.to_bound(other) if other.kind == "bound" else row.ratio(other)


def verdict(row: Row, other: Timed) -> str:
    """What the ratio says, in words; nothing beside a bound, which has no winner.

    Parameters
    ----------
    row, other
        As for `shown_ratio`.
    """
    ratio = row.ratio(other)
    if ratio is None:
        return "not in turns"
    if ratio.blocks < 2:
        return "one block: no band"
    if ratio.verdict == "too noisy":
        return "band too wide" if other.kind == "bound" else "band too wide: no winner"
    if other.kind == "bound":
        return "of the bound"
    is_other = other.kind == "peer" and ratio.verdict in {"faster", "slower"}
    return f"dpcore is {ratio.verdict}" if is_other else ratio.verdict


def side_name(other: Timed) -> str:
    """The name of a side with its mark.

    Parameters
    ----------
    other : Timed
        The side.
    """
    return f"{other.name} {UNSAFE}" if other.kind == "peer" and not other.safe else other.name


def band(ratio: Ratio) -> str:
    """The two ends of a band.

    Parameters
    ----------
    ratio : Ratio
        The ratio.
    """
    return f"{significant(ratio.low)} – {significant(ratio.high)}"


def lines(row: Row) -> Iterator[tuple[str, ...]]:
    """The lines of a row: one for each other side, or one for ours alone.

    Parameters
    ----------
    row : Row
        The row.
    """
    ours = duration(row.ours.nanoseconds)
    if not row.others:
        yield row.title, row.level, ours, "", "", "", "", ""
    for other in row.others:
        ratio = shown_ratio(row, other)
        numbers = ("", "") if ratio is None else (significant(ratio.value), band(ratio))
        yield row.title, row.level, ours, side_name(other), duration(other.nanoseconds), *numbers, verdict(row, other)


def rows_of(rows: Iterable[Row]) -> tuple[Sequence[str], list[tuple[str, ...]]]:
    """The whole table.

    Parameters
    ----------
    rows : iterable of Row
        The rows.

    Returns
    -------
    headings : sequence of str
        One for each column.
    cells : list of tuple of str
        The lines. A row's own name, level and time are written once.
    """
    cells: list[tuple[str, ...]] = []
    for row in rows:
        for number, line in enumerate(lines(row)):
            cells.append(line if number == 0 else ("", "", "", *line[3:]))
    return HEADINGS, cells


def noise_in_words(results: Results) -> str:
    """How much the machine's own speed varied, as a copy shows it.

    Parameters
    ----------
    results : Results
        The run.
    """
    spread = results.noise.spread
    if math.isnan(spread):
        return "The noise of the machine was not measured."
    verdict = "quiet" if spread < QUIET else "busy" if spread < BUSY else "very busy, so that bands are wide and fewer rows have a winner"
    varied = f"The time of one copy of 8 MB varied by {spread:.0%} over the run, without its fastest and slowest tenth."
    return f"The machine was {verdict}. {varied}"


def notes(results: Results) -> Iterator[str]:
    """What a reader of the table must know: the noise of the machine, absent and broken packages, one core, no AES.

    Parameters
    ----------
    results : Results
        The run.
    """
    yield noise_in_words(results)
    machine = results.machine.get("dpcore", {})
    if machine.get("secure_cipher") == "chacha20":
        yield "The CPU level in use has no AES instructions: the secure source is ChaCha20."
    if machine.get("threads") == 1:
        yield "One core: nothing was measured on several threads."
    for absent in results.absent:
        yield f"not installed: {absent.package} ({', '.join(absent.names[:4])}{', …' if len(absent.names) > 4 else ''}): {absent.pip}"
    for broken in results.broken:
        yield f"broken: {broken.side}, in {broken.row}: {broken.why}"
    if results.unreached:
        few = ", ".join(results.unreached[:3])
        yield f"no time was left for {len(results.unreached)} benchmarks ({few}{', …' if len(results.unreached) > 3 else ''})"
    if results.interrupted:
        yield "The run was interrupted: some benchmarks are missing, and bands are wider."
