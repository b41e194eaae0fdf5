"""What comes back from a question about a table: the answer, as numbers or as a frame, and the plan by which it was made."""

from __future__ import annotations

import itertools
import re
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcore._dataclasses import dataclass
from dpcore._guarantee import sentences
from dpcore._html import MOST, columns_table, escaped, rows_table
from dpcore.errors import ParameterError, ParameterTypeError
from dpcore.frames.dated import TIMES, dated
from dpcore.pages.numbers import counted, plain_number, rounded_up
from dpcore.privacy import Privacy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dpcore.frames.source import Native
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.view import Row, View

SIGNIFICANT = 6
"""Digits of a number in a line about a plan."""
SHOWN = 5
"""Queries in a line about a plan."""


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The description of a job on a table, from public parameters alone: `plan` of a table makes it, and every result has one.

    Attributes
    ----------
    privacy : Privacy
        What all queries spend together.
    unit : str
        Whose data is protected.
    document : dict
        As `dpcore release --dry-run --json` prints it: limits, the guarantee in words, and for each query its noise and standard error.
    """

    privacy: Privacy
    unit: str
    document: dict[str, Any] = field(repr=False)

    @classmethod
    def of(cls, plan: ReleasePlan) -> TablePlan:
        """Describe a plan.

        Parameters
        ----------
        plan : ReleasePlan
            Of a job.

        Returns
        -------
        TablePlan
            It holds neither the table nor anything read from it.
        """
        from dpcore.query.document import plan_document

        job = plan.job
        return cls(job.total, job.privacy.protected, {key: value for key, value in plan_document(plan).items() if key != "output"})

    @property
    def guarantee(self) -> str:
        """The guarantee of all queries together, in words, for a report or a publication."""
        return _in_words(self.privacy, self.document, self.document["queries"])

    def _columns(self) -> dict[str, list[Any]]:
        lines = [(query, noise) for query in self.document["queries"] for noise in query["noise"] or [None]]
        behind = [query.get("behind") for query, _ in lines]
        return {
            "query": [query["name"] for query, _ in lines],
            "epsilon": [rounded_up(query["privacy"]["epsilon"], 6) for query, _ in lines],
            "delta": [rounded_up(query["privacy"]["delta"], 6) for query, _ in lines],
            "noise": ["none" if noise is None else noise["law"].replace("_", " ") for _, noise in lines],
            "scale": [plain_number(None if noise is None else noise["scale"], 4) for _, noise in lines],
            "stderr": [plain_number(query["stderr"], 4) for query, _ in lines],
            **({"behind": behind} if any(each is not None for each in behind) else {}),
        }

    def __repr__(self) -> str:
        said = [f"epsilon={self.privacy.epsilon!r}", f"delta={self.privacy.delta!r}", f"relation={self.privacy.relation!r}"]
        errors = [f"{query['name']}: {_error(query)}" for query in self.document["queries"][:SHOWN]]
        more = len(self.document["queries"]) - len(errors)
        return f"TablePlan({', '.join([*said, f'unit={self.unit!r}', *errors, *([f'… {more} more'] if more else [])])})"

    def _repr_html_(self) -> str:
        caption = f"Plan; nothing was read or spent. {_protected(self.privacy, self.unit)}"
        return columns_table(caption, self._columns())


@dataclass(slots=True)
class Answered:
    """What the answers of one job share.

    Attributes
    ----------
    native : str or callable
        The library of the frame that came in, or what makes a frame of it of a table of pyarrow.
    document : dict or None
        What a job would have written, with arrays of numbers of groups; None until the job has run.
    plan : TablePlan or None
        The plan by which it ran.
    places : sequence of int
        Places of the answers in the document, where queries that name groups are, too.
    source : str
        What was read, for pages.
    written : dict or None
        The document with lists, from when it is first asked for.
    dataset : str or None
        The name of the data set, for pages.
    """

    native: Native
    source: str
    document: dict[str, Any] | None = None
    plan: TablePlan | None = None
    places: Sequence[int] = ()
    written: dict[str, Any] | None = None
    dataset: str | None = None


class TableResult:
    """The private answer to a question about a table. `PrivateTable` makes it.

    Inside of `PrivateTable.batch` it is a handle, which can be read when the batch has ended.

    Attributes
    ----------
    answered : Answered
        The answers of the same job.
    place : int
        Place of this one among them.
    value : int, float, date, datetime, time, timedelta, list or ndarray
        The answer: a number, or one for each group, cell or level; labels of the chosen candidates; None or NaN where there is none. About
        dates and times it is one of those of Python, or a list of such.
    stderr : float, timedelta, list, ndarray or None
        Standard error of the noise, if it is known.
    interval : tuple, list, ndarray or None
        Lower and upper end, or a row of both for each number; it covers at the query's confidence, one number at a time.
    behind : int or None
        Of a `mode` or `top`: with the probability of the query's confidence, no chosen candidate has more than so many rows fewer than the
        one that is truly in the last of the places chosen for, in each group for itself. None of other answers.
    privacy : Privacy
        What the answer spends, and with it what naming its groups spent: the first answer about groups that only the data know names them.
    plan : TablePlan
        Noise and guarantee, from public parameters.
    document : dict
        The answer as a job writes it.
    """

    __slots__ = ("_answered", "_place")

    def __init__(self, answered: Answered, place: int) -> None:
        self._answered, self._place = answered, place

    @property
    def document(self) -> dict[str, Any]:
        """The answer as a job writes it, an entry of `queries`."""
        return self._of(self._written())

    @property
    def value(self) -> int | float | str | TIMES | list[Any] | npt.NDArray[Any] | None:
        """The answer."""
        found: int | float | str | TIMES | list[Any] | npt.NDArray[Any] | None = _numbers(dated(self._answer)["value"])
        return found

    @property
    def stderr(self) -> float | TIMES | list[Any] | npt.NDArray[np.float64] | None:
        """Standard error of the noise."""
        found: float | TIMES | list[Any] | npt.NDArray[np.float64] | None = _numbers(dated(self._answer).get("stderr"))
        return found

    @property
    def interval(self) -> tuple[float, float] | tuple[TIMES, TIMES] | list[Any] | npt.NDArray[np.float64] | None:
        """Lower and upper end."""
        found = dated(self._answer).get("interval")
        if found is None:
            return None
        if isinstance(found, np.ndarray):
            return found.astype(np.float64)
        if _has(found, TIMES):
            return [None if pair is None else tuple(pair) for pair in found] if isinstance(found[0], list | None) else (found[0], found[1])
        if not found or isinstance(found[0], list | tuple | None):
            return np.array([(np.nan, np.nan) if pair is None else pair for pair in found], np.float64)
        return float(found[0]), float(found[1])

    @property
    def behind(self) -> int | None:
        """Rows that a choice may be behind the best."""
        from dpcore.query.kinds import KINDS

        return KINDS[self._answer["kind"]].behind(self._answer)

    @property
    def privacy(self) -> Privacy:
        """What the answer spends, with what naming its groups spent."""
        whole, places = self._whole(), self._answered.places
        # What lies between the answer before and this one names keys for it.
        parts = whole["queries"][places[self._place - 1] + 1 if self._place else 0 : places[self._place] + 1]
        own, *others = [Privacy(part["privacy"]["epsilon"], part["privacy"]["delta"], whole["relation"]) for part in parts]
        if not others:
            return own
        from dpcore.accounting.rules import basic

        return basic([own, *others])

    @property
    def guarantee(self) -> str:
        """The guarantee of the answer, in words, for a report or a publication. Answers of one table add up: see the plan for a batch."""
        return _in_words(self.privacy, self._whole(), [self._answer])

    @property
    def plan(self) -> TablePlan:
        """Noise and guarantee of the job that gave the answer."""
        self._whole()
        if self._answered.plan is None:
            raise AssertionError("an answered job has a plan")
        return self._answered.plan

    def to_arrow(self) -> pa.Table:
        """Return the answer as a table of pyarrow.

        Returns
        -------
        pyarrow.Table
            Keys of groups and cells, then `value`, `stderr`, `lower` and `upper`. Answers about dates and times have their types.
        """
        import pyarrow as pa

        arrays = {name: pa.array(column) for name, column in _view(self._answer, dated(self._answer)).columns().items()}
        # A column without any number is one of float64.
        return pa.table({name: array.cast(pa.float64()) if pa.types.is_null(array.type) else array for name, array in arrays.items()})

    def to_pandas(self) -> pd.DataFrame:
        """Return the answer as a DataFrame of pandas.

        Returns
        -------
        pandas.DataFrame
            With the columns of `to_arrow`.

        Raises
        ------
        ModuleNotFoundError
            If pandas is not installed.
        """
        found: pd.DataFrame = self.to_arrow().to_pandas()
        return found

    def to_polars(self) -> pl.DataFrame:
        """Return the answer as a DataFrame of polars.

        Returns
        -------
        polars.DataFrame
            With the columns of `to_arrow`.

        Raises
        ------
        ModuleNotFoundError
            If polars is not installed.
        """
        import polars as pl

        found = pl.from_arrow(self.to_arrow())
        if not isinstance(found, pl.DataFrame):
            raise AssertionError("a table is a frame")  # noqa: TRY004
        return found

    def to_native(self) -> object:
        """Return the answer as a frame of the library whose frame was asked.

        Returns
        -------
        object
            A DataFrame of pandas, polars or Spark, a relation of DuckDB, or a table of pyarrow; of a path, a table of pyarrow.
        """
        if callable(self._answered.native):
            return self._answered.native(self.to_arrow())
        match self._answered.native:
            case "pandas":
                return self.to_pandas()
            case "polars":
                return self.to_polars()
            case "duckdb":
                import duckdb

                return duckdb.from_arrow(self.to_arrow())
            case _:
                return self.to_arrow()

    def report(self, folder: str | Path) -> tuple[Path, ...]:
        """Write a page and a JSON file about the answer, and about those of its batch, named by what was asked.

        A report of other answers is not replaced: the name of the new one ends in -2, -3, ….

        Parameters
        ----------
        folder : str or Path
            It is made if it does not exist.

        Returns
        -------
        tuple of Path
            The files.

        Raises
        ------
        ParameterTypeError
            If `folder` is no path.
        JobError, StorageError
            If the extra `report` is not installed, or the files cannot be written.
        """
        if not isinstance(folder, str | Path):
            raise ParameterTypeError(f"folder must be a path, got {type(folder).__name__}")
        from dpcore.pages.page import Provenance, free_name
        from dpcore.query.page import ReleasePages

        document = self._written()
        queries = document["queries"]
        by = queries[0].get("group_by", ())
        asked = " by ".join([queries[0]["name"], *([by] if isinstance(by, str) else by)]) if len(queries) == 1 else ""
        stem = free_name(Path(folder), re.sub(r"\W+", "-", asked).strip("-") or "answers", document)
        origin = Provenance(input=self._answered.source, dataset=self._answered.dataset)
        pages = ReleasePages(Path(folder), stem, provenance=origin)
        pages.write(document)
        return pages.paths

    def _whole(self) -> dict[str, Any]:
        if self._answered.document is None:
            raise ParameterError("the batch of this answer has not ended; read it after the with block")
        return self._answered.document

    @property
    def _answer(self) -> dict[str, Any]:
        """The answer as an entry of the document, with arrays."""
        return self._of(self._whole())

    def _of(self, document: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = document["queries"][self._answered.places[self._place]]
        return found

    def _written(self) -> dict[str, Any]:
        """The document as a job writes it."""
        from dpcore.tables.arrays import with_lists

        if self._answered.written is None:
            self._answered.written = with_lists(self._whole())
        return self._answered.written

    def __repr__(self) -> str:
        if self._answered.document is None:
            return "TableResult(<its batch has not ended>)"
        view = _view(self._answer)
        said = _line(view[0]) if len(view) == 1 and view.has_values else f"{counted(len(view), 'row')} of {', '.join(view.columns(0))}"
        spent = self.privacy
        delta = f", delta={spent.delta:.4g}" if spent.delta else ""
        return f"TableResult({self._answer['name']}: {said}, epsilon={spent.epsilon:.4g}{delta})"

    def _repr_html_(self) -> str:
        if self._answered.document is None:
            return f"<p>{escaped(repr(self))}</p>"
        from dpcore.tables.arrays import listed

        view = _view(self._answer)
        parts = f"{self._answer['name']}: {_protected(self.privacy, self._whole()['unit'])}", view.kind.sureness(self._answer)
        caption = ". ".join(filter(None, parts))
        columns = {name: list(map(plain_number, listed(column[:MOST]))) for name, column in view.columns(MOST).items()}
        rows = list(itertools.islice(view.rows(0, MOST), MOST))
        if view.has_values:
            shown = [(*row.shown, row.error) for row in rows]
            columns |= {name: [texts[place] or "–" for texts in shown] for place, name in enumerate(("value", "lower", "upper", "stderr"))}
            columns["relative error"] = [row.share_and_mark or "–" for row in rows]
        known = {name: column for name, column in columns.items() if not column or set(column) != {"–"}} or columns
        return rows_table(caption, list(known), zip(*known.values(), strict=True), len(view))


def _view(answer: dict[str, Any], typed: dict[str, Any] | None = None) -> View:
    from dpcore.query.view import View  # with all kinds, which no result needs before it is shown

    return View(answer, typed)


def _line(row: Row) -> str:
    value, lower, upper = row.shown
    if row.value is None:
        return "no value"
    if row.is_exact:
        return f"{value} (exact)"
    return value if row.lower is None else f"{value} in [{lower}, {upper}]"


def _error(query: dict[str, Any]) -> str:
    """How good a planned answer is: by how many rows a choice is behind at most, or the standard error."""
    stderr, behind = query["stderr"], query.get("behind")
    if behind is not None and stderr is None:
        return f"behind by at most {counted(behind, 'row')}"
    return (
        "stderr unknown before the release; epsilon_for says how far it may be off"
        if stderr is None
        else f"stderr {plain_number(stderr, SIGNIFICANT)}"
    )


def _in_words(privacy: Privacy, document: Mapping[str, Any], queries: Sequence[Mapping[str, Any]]) -> str:
    from dpcore.query.questions import protection

    said = sentences(privacy.epsilon, privacy.delta, relation=privacy.relation, unit=document["unit"])
    return f"{said} {protection(document, queries, privacy.delta)}"


def _protected(privacy: Privacy, unit: str) -> str:
    change = "one row" if unit == "row" else f"the rows of one {unit}"
    verb = "differ by the values of" if privacy.relation == "replace" else "differ by the presence of"
    delta = f", δ = {rounded_up(privacy.delta, SIGNIFICANT)}" if privacy.delta else ""
    return f"ε = {rounded_up(privacy.epsilon, SIGNIFICANT)}{delta}, for tables that {verb} {change}"


def _has(value: Any, kinds: Any) -> bool:
    """Whether something in a list of lists is of a kind."""
    return any(_has(item, kinds) for item in value) if isinstance(value, list) else isinstance(value, kinds)


def _numbers(value: Any) -> Any:
    """A list of numbers as an array, with NaN for what there is not; labels and single values as they are."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if not isinstance(value, list):
        return value
    flat = [item for each in value for item in (each if isinstance(each, list) else [each])]
    if any(isinstance(item, str | TIMES) for item in flat):
        return list(value)
    return np.array(value) if all(item is not None for item in flat) else np.array(value, np.float64)
