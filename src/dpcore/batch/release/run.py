"""Central privacy for tables: exact statistics in one pass over the rows, then one private answer for each query."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpcore._backend import default_threads
from dpcore._validation import check_integer
from dpcore.batch.jobfile.sections import key_of
from dpcore.batch.release.bounds_pass import BinsOfGroups, counting, with_bounds
from dpcore.batch.release.cells import read_column
from dpcore.batch.release.group_bounds import finds_bounds
from dpcore.batch.release.groups import GroupedAnswer, TalliesOfGroups
from dpcore.batch.release.key_counts import select_keys, with_keys
from dpcore.batch.release.people import OfWholeUnits
from dpcore.batch.release.plan import ReleasePlan
from dpcore.batch.release.queries import MAX_QUERIES
from dpcore.batch.release.stepped import in_own_unit
from dpcore.batch.release.synthetic import SyntheticAnswer
from dpcore.batch.release.table import open_table, write_rows
from dpcore.batch.release.timed import in_words
from dpcore.batch.release.words import guarantee_of
from dpcore.batch.tables.checks import check_is
from dpcore.batch.tables.derivation import Derivation, Passing
from dpcore.batch.tables.pieces import Cut
from dpcore.batch.tables.pipeline import UNFINISHED, Pipeline
from dpcore.batch.tables.progress import Progress, Shown, shown_by
from dpcore.batch.tables.provenance import provenance
from dpcore.batch.tables.rows import Rows, piece_rows_for, read_rows
from dpcore.batch.tables.units import CHANGED, RowWords, choose_rows
from dpcore.batch.tables.whole_units import Gathered
from dpcore.errors import StorageError
from dpcore.pages.numbers import json_text

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.batch.release.answers import Answer
    from dpcore.batch.tables.derivation import Deriving
    from dpcore.batch.tables.output import Output
    from dpcore.batch.tables.units import Kept
    from dpcore.rng import StreamPosition
    from dpcore.testing import KeyedRandom

DRAWS = MAX_QUERIES
"""Nonces between one draw of a query and its next."""
WORD_DRAW = 2**20 - 2
"""The draw of the words by which units choose among their values: no query has so many draws, and those of units come behind it."""
ANSWER_BYTES = 1 << 14
"""Room for what an answer takes in the document, about."""


def run(plan: ReleasePlan, *, threads: int | None = None, progress: Shown = None, piece_rows: int | None = None) -> dict[str, Any]:
    """Run a planned job, write its output, and return the answers. `dpcore.batch.release` is this function.

    Parameters
    ----------
    plan : ReleasePlan
        From `make_release_plan`.
    threads : int, optional
        Threads that compute; one more reads. Default: the CPUs this process may use.
    progress : callable or Progress, optional
        Called as `progress(done, total)` on the calling thread, a few times a second, in thousandths of each stage. An object with
        `begin(stage)` and `update(rows, fraction)` learns the stages as well.
    piece_rows : int, optional
        Rows handled at a time; the output does not depend on it.

    Returns
    -------
    dict
        The document that was written: `privacy`, `rows` if public, and `queries` with `value`, `stderr` and `interval`.

    Raises
    ------
    ParameterTypeError
        If `plan` is not a `ReleasePlan`.
    BudgetError
        If the ledger does not have what the job spends.
    DataError
        If a row does not fit its declaration and the job declares nothing for it. The message names the column, and file and row only
        with `curator`; it never quotes a value.
    StorageError
        If the input cannot be read or an output not written. Nothing is left under the outputs' names.
    PublishedError
        If something fails after the outputs were published; its cause says what.

    Notes
    -----
    Guarantee: all answers together protect one unit at `plan.job.total`, the sum over the queries.

    Cost: one pass over the input, two with a unit; memory does not depend on the number of rows.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_release_plan, parse_release_job, release
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder, "people.parquet")
    ...     pq.write_table(pa.table({"smoker": [True, False] * 500}), source)
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": str(source)},
    ...         "output": {"path": f"{folder}/answers.json"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "query": [{"name": "smokers", "kind": "mean", "column": "smoker", "lower": 0, "upper": 1, "epsilon": 1.0}],
    ...     }
    ...     document = release(make_release_plan(parse_release_job(job)))
    >>> document["rows"], document["queries"][0]["name"]
    (1000, 'smokers')
    """
    check_is("plan", plan, ReleasePlan, "make_release_plan")
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)
    shown = shown_by(progress)
    with plan.publication.truth(), plan.publication as publication, contextlib.ExitStack() as opened:
        tables = {
            place: opened.enter_context(open_table(publication, plan.job, answer.section, answer.columns))
            for place, answer in enumerate(plan.answers)
            if isinstance(answer, SyntheticAnswer)
        }
        output = publication.open(plan.output)
        if publication.charge.is_recorded:
            output.allocate(ANSWER_BYTES * len(plan.answers))
        # From here on the budget is spent, even if the job fails.
        publication.reserve()
        tallies, rows = measure(plan, output, threads, shown, piece_rows)
        document = document_of(plan, tallies, rows, tables, shown)
        sealed = [file for table in tables.values() for file in table.seal()]
        output.write((json_text(document) + "\n").encode())
        publication.publish([*sealed, output.seal()])
    return document


# One pass over the rows


class Room(Protocol):
    """Has a folder for what does not fit into memory."""

    @property
    def spill(self) -> Path:
        """The folder; it is made when it is needed."""


def measure(plan: ReleasePlan, output: Room, threads: int, progress: Progress, piece_rows: int | None = None) -> tuple[list[Any], int]:
    """The exact statistic of each query, and the number of rows, which are not private yet; of queries for keys what was released."""
    kept = None
    if plan.unit_type is not None and plan.job.chooses_rows:
        progress.begin(f"choosing rows per {plan.job.privacy.unit!r}")
        grouping = plan.grouping if plan.job.privacy.max_groups_per_unit is not None else None
        kept = choose_rows(plan, key_of(plan.job.testing), output.spill, threads, progress.update, grouping=grouping)
    keys = select_keys(plan, kept, lambda place: _stream(plan, place), output.spill, threads, progress)
    plan = with_keys(plan, [keys.get(place) for place in range(len(plan.answers))])
    if any(map(finds_bounds, plan.answers)):
        progress.begin("finding bounds")
        bins, _ = _added_up(counting(plan), kept, output, threads, progress, piece_rows)
        plan = with_bounds(plan, bins, lambda place: _stream(plan, place))
    progress.begin("adding up")
    tallies, rows = _added_up(plan, kept, output, threads, progress, piece_rows)
    return [keys.get(place, tally) for place, tally in enumerate(tallies)], rows


def _added_up(
    plan: ReleasePlan, kept: Kept | None, output: Room, threads: int, progress: Progress, piece_rows: int | None
) -> tuple[list[Any], int]:
    """The statistic of each answer, and the number of rows, from one pass over the rows."""
    derivation = Derivation() if plan.derivations is None else plan.derivations.adding
    read = {*derivation.reads, *(name for answer in plan.answers for name in _names(answer))}
    types = {name: kind for name, kind in plan.read_types.items() if name in read} or plan.read_types
    most = min(piece_rows or piece_rows_for(types, is_counted=True), derivation.most_rows)
    source = read_rows(plan.inputs, types, Cut(most, use_threads=threads > 1))
    with derivation.opened() as deriving:
        tallies = _Tallies(plan, kept, deriving, output.spill)
        Pipeline(source, tallies.of, tallies.add, threads=threads).run(lambda: progress.update(tallies.rows, min(tallies.done, UNFINISHED)))
    progress.update(tallies.rows, 1.0)
    if kept is not None and tallies.rows != kept.rows:
        raise StorageError(CHANGED)
    return tallies.made(threads), tallies.rows


@dataclass(frozen=True, slots=True)
class _Part:
    """The statistics of some rows."""

    tallies: list[Any]
    rows: int
    done: float


class _Tallies:
    """The statistics of all rows so far."""

    def __init__(self, plan: ReleasePlan, kept: Kept | None, deriving: Deriving, spill: Path) -> None:
        self._plan, self._kept, self._deriving = plan, kept, deriving
        self._conditions = () if plan.derivations is None else plan.derivations.conditions
        self._names = tuple({name: None for answer in plan.answers for name in _names(answer)})
        self._total = [self._begun(place, answer, spill) for place, answer in enumerate(plan.answers)]
        self._of_groups = TalliesOfGroups(plan.answers)
        self._words = {
            place: RowWords(key_of(plan.job.testing), place + WORD_DRAW * DRAWS)
            for place, answer in enumerate(plan.answers)
            if isinstance(answer, OfWholeUnits) and answer.draws_words
        }
        self.rows, self.done = 0, 0.0

    @property
    def total(self) -> list[Any]:
        """The statistic of each query, once all rows were added."""
        for place, tally in self._of_groups.merged().items():
            self._total[place] = tally
        return self._total

    def _begun(self, place: int, answer: Answer, spill: Path) -> Any:
        """The statistic of no rows; those of groups are kept apart."""
        if isinstance(answer, GroupedAnswer):
            return None
        if isinstance(answer, OfWholeUnits):
            return answer.gathering(spill / f"query-{place}")
        return answer.tally(0, [np.empty(0, np.int64)] * len(answer.reads))

    def of(self, rows: Rows) -> _Part:
        """The statistics of some rows; every cell is checked, also of rows that their unit does not keep, but not of those filtered out."""
        n = len(rows.batch)
        kept = None if self._kept is None else self._kept.mask(rows.first, n)
        passing = Passing(self._deriving.of(rows), kept, self._conditions, self._names)
        tallies: list[Any] = []
        with self._of_groups.borrowed() as of_groups:
            groups = _GroupsOfRows()
            for place, answer in enumerate(self._plan.answers):
                part = passing.of(place)
                read = [read_column(part.rows, name, cells, curator=self._plan.curator) for name, cells in answer.reads]
                grouping = _grouping_of(answer)
                read += [] if grouping is None else [groups.of(grouping, part.rows)]
                read += [self._words_of(place, rows, part.rows)] if place in self._words else []
                if isinstance(answer, GroupedAnswer):
                    answer.add(of_groups[place], [part.taking_part(each) for each in read])
                elif isinstance(answer, OfWholeUnits) and not answer.of_kept_rows:
                    tallies.append(answer.tally(len(part.rows.batch), read))
                else:
                    tallies.append(answer.tally(part.n, [part.taking_part(each) for each in read]))
        return _Part(tallies, n, rows.done)

    def _words_of(self, place: int, rows: Rows, some: Rows) -> Any:
        """The random words of some of the rows, by which the units of a query choose."""
        words = self._words[place].of(rows).to_numpy()
        return words if some.taken is None else words[some.taken]

    def made(self, threads: int) -> list[Any]:
        """The statistics of all rows; those of whole units are made now."""
        return [total.made(threads) if isinstance(total, Gathered) else total for total in self.total]

    def add(self, part: _Part) -> None:
        """Add those of further rows."""
        ungrouped = (place for place, answer in enumerate(self._plan.answers) if not isinstance(answer, GroupedAnswer))
        for place, tally in zip(ungrouped, part.tallies, strict=True):
            self._total[place] += tally  # in place, where the statistic is long
        self.rows += part.rows
        self.done = part.done


def _grouping_of(answer: Answer) -> Any:
    """The groups of an answer, if it has some."""
    return answer.grouping if isinstance(answer, GroupedAnswer | OfWholeUnits | BinsOfGroups) else None


def _names(answer: Answer) -> list[str]:
    """The columns that an answer needs."""
    grouping = _grouping_of(answer)
    return [*(name for name, _ in answer.reads), *(() if grouping is None else grouping.names)]


class _GroupsOfRows:
    """The groups of rows, which are looked up once for all queries with the same groups of the same rows."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Any] = {}

    def of(self, grouping: Any, rows: Rows) -> Any:
        """The group of each row."""
        key = id(grouping), id(rows)
        if key not in self._known:
            self._known[key] = grouping.codes(rows.batch)
        return self._known[key]


# Private answers


class QueryDraws:
    """The keyed stream of one query: its position in the job is the nonce of its first draw.

    Each further draw takes a separate nonce, that of the draw before plus `DRAWS`.
    """

    def __init__(self, key: KeyedRandom, query: int) -> None:
        self._key, self._next = key, query

    @property
    def secure(self) -> bool:
        """Always False."""
        return False

    def position(self) -> StreamPosition:
        """The position of the next draw."""
        nonce, self._next = self._next, self._next + DRAWS
        return self._key.at(nonce).position()


def _stream(plan: ReleasePlan, place: int) -> QueryDraws | None:
    """The stream of a query; None is the secure source."""
    key = key_of(plan.job.testing)
    return None if key is None else QueryDraws(key, place if plan.positions is None else plan.positions[place])


def document_of(plan: ReleasePlan, tallies: list[Any], rows: int, tables: dict[int, Output], progress: Progress) -> dict[str, Any]:
    """The private answers, and what is said about all of them."""
    plan = with_keys(plan, tallies)
    document = plan.job.head() | provenance(plan, plan.job)
    document["guarantee"] = guarantee_of(document)
    if plan.job.n_is_public:
        document["rows"] = rows
    ledger = plan.publication.charge.summary()
    if ledger is not None:
        document["ledger"] = ledger
    return document | {"queries": [_answered(plan, place, tally, tables.get(place), progress) for place, tally in enumerate(tallies)]}


def _has_no_group(answer: Any) -> bool:
    """Whether it is about groups of which no key was released."""
    grouping = getattr(answer, "grouping", None)
    return grouping is not None and grouping.size == 0


def _answered(plan: ReleasePlan, place: int, tally: Any, table: Output | None, progress: Progress) -> dict[str, Any]:
    answer = plan.answers[place]
    section, spent = answer.section, plan.job.spent_on(answer.section)
    rng = _stream(plan, place)
    if isinstance(answer, SyntheticAnswer) and table is not None:
        synthesis = answer.synthesis(tally, rng)
        write_rows(synthesis.table, table, progress)
        said = synthesis.document()
    elif _has_no_group(answer):
        said = {"value": [], "stderr": [], "interval": []}
    else:
        said = answer.release(tally, rng)
    document = {
        "name": section.name,
        "kind": section.kind,
        "column": section.column,
        "privacy": {"epsilon": spent.epsilon, "delta": spent.delta},
        **({} if section.where is None else {"where": section.where}),
        **answer.declared(),
        **said,
        "confidence": section.confidence,
        # Scales that follow from an earlier part of the answer are known to the answer only.
        "noise": said.get("noise", [noise.document() for noise in answer.noise]),
    }
    return in_words(section, in_own_unit(section, document))
