"""Replays: a release is made again from its key file and its input, and compared with the document that was published.

What differs is named, and never shown: the same noise on other data gives exact differences. Nothing is computed from an input that is not,
byte by byte, the one of the release.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcore._backend import default_threads
from dpcore._dataclasses import dataclass
from dpcore._validation import check_integer
from dpcore.errors import DataError, JobError, ParameterTypeError, StorageError, reason
from dpcore.pages.numbers import json_text
from dpcore.query.commitments import Commitment, check_format, code, code_in_words, digests_of, job_of, libraries
from dpcore.query.in_memory import NOWHERE, Unwritten, room
from dpcore.query.joins import inputs_of
from dpcore.query.local_backend import LocalPasses
from dpcore.query.plan import declared_reads, planned
from dpcore.query.run import document_of, measured, open_table
from dpcore.tables.arrays import with_lists
from dpcore.tables.discovery import discover
from dpcore.tables.local_paths import address_of
from dpcore.tables.output import metadata
from dpcore.tables.output.charge import Charge
from dpcore.tables.output.key_file import KeyFile
from dpcore.tables.output.publication import Publication
from dpcore.tables.partitions import declared_sorts
from dpcore.tables.pieces import Cut
from dpcore.tables.places import check_regular, output_place
from dpcore.tables.progress import shown_by
from dpcore.tables.run_ids import canonical, declared_files, digests_of_files, run_ids
from dpcore.tables.sections import OutputSection
from dpcore.tables.sources import bytes_of, digest_of_file, exists

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore._disk.addresses import Location
    from dpcore.query.plan import ReleasePlan
    from dpcore.query.request import ReleaseJob
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.output.charge import Spend
    from dpcore.tables.output.output import Output
    from dpcore.tables.progress import Progress, Shown
    from dpcore.tables.sections import Format

KEY = "--key"
NOT_DERIVED = ("time", "ledger")
"""Keys of a document that do not follow from input and key: the seal shows whether they are as they were written."""
PIECE_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Verification:
    """Whether a release follows from its key file and its input.

    Attributes
    ----------
    document : str
        The document.
    commitment : str or None
        The commitment of the key file.
    queries : int
        Answers that were derived again.
    mismatches : tuple of str
        What is not as it follows from key and input, by name and never by value. Empty if everything is.
    not_derived : tuple of str
        What does not follow from them, and is as the release wrote it if nothing differs.
    libraries : dict
        Versions of libraries that are not those of the release: a pair of texts, then and now, for each.
    """

    document: str
    commitment: str | None
    queries: int
    mismatches: tuple[str, ...]
    not_derived: tuple[str, ...] = ()
    libraries: dict[str, tuple[str, str]] | None = None

    @property
    def matches(self) -> bool:
        """Whether nothing differs."""
        return not self.mismatches

    def as_document(self) -> dict[str, Any]:
        """Return the same for JSON.

        Returns
        -------
        dict
            The attributes, and `matches`.
        """
        return {
            "document": self.document,
            "matches": self.matches,
            "commitment": self.commitment,
            "queries": self.queries,
            "mismatches": list(self.mismatches),
            "not_derived": list(self.not_derived),
            "libraries": {name: list(pair) for name, pair in (self.libraries or {}).items()},
        }


def verify(
    document: str | Path,
    key: str | Path,
    *,
    input: str | Path | None = None,  # noqa: A002
    files: Mapping[str, str | Path] | None = None,
    threads: int | None = None,
    progress: Shown = None,
) -> Verification:
    r"""Make a release again from its key file and its input, and compare it with what was published.

    Parameters
    ----------
    document : str or Path
        The JSON that the release wrote.
    key : str or Path
        Its key file.
    input : str or Path, optional
        Where the input is now: a file, a folder or a glob. Default: where the job had it.
    files : mapping of str to path, optional
        Where tables are now that the job joins, and tables that it wrote, by the paths that the job has for them.
    threads : int, optional
        Threads that compute. Default: the CPUs this process may use.
    progress : callable or Progress, optional
        As in `release`.

    Returns
    -------
    Verification
        What differs, by name.

    Raises
    ------
    JobError
        If there can be no verdict: another version of dpcore made the release, or the key file is none, or others may read it.
    StorageError
        If a file cannot be read.
    ParameterTypeError, ParameterError
        If an argument is of the wrong type or outside its range.

    Notes
    -----
    Guarantee: a match shows that all answers follow from the key that was committed to, from the job and from the input, by this code. It
    does not show that the data are true or were not chosen. Each verdict is one bit about the input that no ε pays for: verify for
    people who may see the data.

    Cost: that of the release, and one more reading of the input's bytes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_release_plan, parse_release_job, release, verify
    >>> with TemporaryDirectory() as folder:
    ...     source = Path(folder, "people.parquet")
    ...     pq.write_table(pa.table({"smoker": [True, False] * 500}), source)
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": str(source)},
    ...         "output": {"path": f"{folder}/out/answers.json"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "query": [{"name": "smokers", "kind": "mean", "column": "smoker", "lower": 0, "upper": 1, "epsilon": 1.0}],
    ...     }
    ...     _ = release(make_release_plan(parse_release_job(job), commit=f"{folder}/keys/people.key"))
    ...     verify(f"{folder}/out/answers.json", f"{folder}/keys/people.key").matches
    True
    """
    for name, value in (("document", document), ("key", key)):
        if not isinstance(value, str | Path):
            raise ParameterTypeError(f"{name} must be a str or Path, got {type(value).__name__}")
    threads = default_threads() if threads is None else check_integer("threads", threads, low=1, high=4096)
    file = KeyFile(key, KEY)
    contents = file.read()
    if contents is None:
        raise StorageError(f"{file}: no such file; without it nobody can tell whether the answers follow from it")
    about = contents.about
    check_format(file, about)
    begun = contents.begun
    told = None if begun is None else begun.get("public_randomness")
    commitment = Commitment(file, contents, None if told is None else bytes.fromhex(told), is_new=False)
    try:
        replay = _Replay(str(document), commitment, about, begun, threads, shown_by(progress))
        return replay.compared(
            _read(document), None if input is None else str(input), {old: str(new) for old, new in (files or {}).items()}
        )
    finally:
        commitment.forget()


class _Replay:
    """One replay: the checks in their order, of which the first that fails ends it before anything is computed from rows."""

    def __init__(
        self, name: str, commitment: Commitment, about: Mapping[str, Any], begun: Mapping[str, Any] | None, threads: int, shown: Progress
    ) -> None:
        self._name, self._commitment, self._about, self._begun = name, commitment, about, begun
        self._threads, self._shown = threads, shown

    def compared(self, given: dict[str, Any] | str, source: str | None, moved: Mapping[str, str]) -> Verification:
        """The verdict about a document, or about what is wrong with its text."""
        if isinstance(given, str):
            return self._differs(given)
        said = given.get("commitment")
        if not isinstance(said, dict):
            return self._differs("commitment: there is none, so nothing shows which key the noise is from")
        if said.get("hmac_sha256") != self._commitment.digest:
            return self._differs("commitment.hmac_sha256: the document is of another key file, or one of the two was changed")
        if said.get("code") != self._about["code"]:
            return self._differs("commitment.code: not what was committed to")
        if self._begun is None:
            return self._differs("the key file: no release has begun with it")
        if self._about["code"] != code():
            raise JobError(
                f"cannot verify: the release was made by {code_in_words(self._about['code'])}, and this is {code_in_words(code())}. "
                "Install that version, and verify again"
            )
        job = job_of(self._about)
        if run_ids(job, self._about["folder"], self._about["files"])[0] != self._about["run"]:
            return self._differs("the key file: its run is not that of its job")
        wrong = self._wrong_files(job)
        if wrong:
            return self._differs(*wrong)
        return self._derived(job, given, source, moved)

    def _wrong_files(self, job: ReleaseJob) -> list[str]:
        """The public files of the job that are not what they were."""
        names, now = declared_files(canonical(job)), digests_of_files(job)
        return [
            f"{name!r}, which the job names: not the file of the release"
            for name, one, other in itertools.zip_longest(names, now, self._about["files"])
            if one != other
        ]

    def _derived(self, job: ReleaseJob, given: Mapping[str, Any], source: str | None, moved: Mapping[str, str]) -> Verification:
        bare = job.model_copy(update={"ledger": None})  # nothing is spent
        outputs = {query.table_path for query in job.query if query.table_path is not None}
        joined = {section.path for section in job.joined}
        for name in moved:
            if name not in outputs | joined:
                raise JobError(f"--file {name!r}: the job joins and writes no table of this path")
        inputs = discover(source or job.input.path, job.input.format, "--input" if source else "input.path", declared_sorts(job.query))
        tables = {section.path: discover(moved[section.path], section.format, "--file") for section in job.joined if section.path in moved}
        plan = self._planned(bare, *inputs_of(bare, inputs, tables))
        noted = (self._begun or {}).get("inputs")
        found = digests_of(plan.tables, self._shown)
        if found != noted:
            return self._differs(*_wrong_inputs(found, noted))
        document, wrong = self._made(plan, moved)
        wrong += differences(document, given, has_ledger=job.ledger is not None)
        seal = given["commitment"].get("seal")
        if not wrong and not (isinstance(seal, str) and hmac.compare_digest(seal.encode(), self._commitment.seal_of(given).encode())):
            wrong.append(f"the seal: what does not follow from key and input ({', '.join(NOT_DERIVED)}) was changed after the release")
        return self._verdict(wrong, len(document["queries"]), tuple(key for key in NOT_DERIVED if key in given))

    def _planned(self, job: ReleaseJob, inputs: Inputs, tables: Mapping[str, Inputs]) -> ReleasePlan:
        def publication(spend: Spend) -> Unwritten:
            charge = Charge(job, spend, overwrite=True, is_repeatable=False)
            charge.runs = (self._commitment.run,)
            return Unwritten(charge)

        return planned(job, inputs, declared_reads(job), Path(NOWHERE), publication, tables=tables, commitment=self._commitment)

    def _made(self, plan: ReleasePlan, moved: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
        """The document again, and which tables beside it differ."""
        with contextlib.ExitStack() as opened:
            found = opened.enter_context(room())
            folder = Path(opened.enter_context(TemporaryDirectory(prefix="dpcore-", ignore_cleanup_errors=True)))
            scratch = opened.enter_context(Publication((), plan.publication.charge, overwrite=True))
            again: dict[int, Output] = {}
            for place, estimator in enumerate(plan.estimators):
                if estimator.table is not None:
                    name = Path(estimator.section.output).name
                    section = estimator.section.model_copy(update={"output": str(folder / f"{place}-{name}")})
                    again[place] = opened.enter_context(open_table(scratch, plan.job, section, estimator.table))
            made = with_lists(document_of(*measured(plan, LocalPasses(found, self._threads, self._shown)), again, self._shown))
            wrong = []
            for place, output in again.items():
                section = plan.estimators[place].section
                where = output_place(moved.get(section.output, section.output), "--file")
                if not _is_same_table([file.temporary for file in output.seal()], where, section.output):
                    wrong.append(f"the table of queries[{place}] ({section.name!r})")
        document: dict[str, Any] = json.loads(json_text(made))
        return document, wrong

    def _differs(self, *wrong: str) -> Verification:
        return self._verdict(list(wrong), 0, ())

    def _verdict(self, wrong: list[str], queries: int, not_derived: tuple[str, ...]) -> Verification:
        then, now = self._about["libraries"], libraries()
        others = {name: (str(then.get(name)), now[name]) for name in now if then.get(name) != now[name]}
        return Verification(self._name, self._commitment.digest, queries, tuple(wrong), not_derived, others)


# Documents


def _read(document: str | Path) -> dict[str, Any] | str:
    """A document, or what is wrong with its text."""
    place = address_of("the document", str(document)) or Path(document)
    check_regular(place, "the document")
    try:
        content = bytes_of(place)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"cannot read {document}{reason(error)}") from None
    try:
        found = json.loads(content, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return "the document: not complete JSON with each key once"
    return found if isinstance(found, dict) else "the document: not that of a release"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A table whose keys are there once: of two values, readers would not agree which one counts."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(len(pairs))
    return found


def _no_number(word: str) -> None:
    raise ValueError(word)


def differences(made: Mapping[str, Any], given: Mapping[str, Any], *, has_ledger: bool) -> list[str]:
    """What a document says otherwise than the one that was made again, by name.

    Parameters
    ----------
    made, given : mapping
        The two, as JSON gives them.
    has_ledger : bool
        Whether the job names a ledger, whose state a document then has.
    """
    wrong = [key for key in NOT_DERIVED if (key in given) != (key == "time" or has_ledger)]
    keys = [key for key in dict.fromkeys([*made, *given]) if key not in (*NOT_DERIVED, "queries", "commitment")]
    wrong += [name for key in keys for name in _different(_named(key, made), made.get(key), given.get(key))]
    published = {key: value for key, value in given["commitment"].items() if key != "seal"}
    wrong += _different("commitment", made["commitment"], published)
    return wrong + _different_queries(made["queries"], given.get("queries"))


def _different(name: str, made: Any, given: Any) -> list[str]:
    """The name of a value that differs; of tables those of their keys."""
    if _text(made) == _text(given):
        return []
    if not (isinstance(made, dict) and isinstance(given, dict)):
        return [name]
    keys = dict.fromkeys([*made, *given])
    return [found for key in keys for found in _different(f"{name}.{_named(key, made)}", made.get(key), given.get(key))] or [name]


def _named(key: str, made: Mapping[str, Any]) -> str:
    """A key in a message: one that only the document has is quoted, as anybody may have written it."""
    return key if key in made else repr(key)


def _different_queries(made: list[dict[str, Any]], given: Any) -> list[str]:
    if not isinstance(given, list) or not all(isinstance(query, dict) for query in given):
        return ["queries"]
    wrong = [f"queries: {len(given)} are there, and {len(made)} were asked"] if len(given) != len(made) else []
    for place, (one, other) in enumerate(zip(made, given, strict=False)):
        keys = [key for key in dict.fromkeys([*one, *other]) if (key in one, _text(one.get(key))) != (key in other, _text(other.get(key)))]
        if keys:
            wrong.append(f"queries[{place}] ({one['name']!r}): {', '.join(_named(key, one) for key in keys)}")
    return wrong


def _text(value: Any) -> str:
    """A value as text, so that 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def _wrong_inputs(found: Mapping[str, Any], noted: Any) -> list[str]:
    """Which tables are not those of the release."""
    noted = noted if isinstance(noted, dict) else {}
    wrong = [] if found["input"] == noted.get("input") else ["the input: not the one of the release, so nothing was computed from it"]
    if found["joined"] != noted.get("joined"):
        wrong.append("a table that the job joins: not the one of the release, so nothing was computed from it")
    return wrong


# Tables


def _is_same_table(made: list[Path], given: Location, name: str) -> bool:
    """Whether a table holds what was made again: for CSV first its sidecar; `name` is what the job calls it."""
    wanted = OutputSection(path=name).resolved_format
    places = metadata.output_files(given, wanted)
    for place in places:
        if not exists(place):
            raise StorageError(f"{place}: no such file; if the table is elsewhere now, say where: --file {name}=PATH")
    try:
        if all(digest_of_file(one) == digest_of_file(other) for one, other in zip(made, places, strict=True)):
            return True
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{given}: cannot be read{reason(error)}") from None
    # Another version of Arrow may write the same rows as other bytes.
    return wanted != "csv" and _has_same_rows(str(made[-1]), str(given), wanted)


def _has_same_rows(made: str, given: str, wanted: Format) -> bool:
    """Whether two tables have equal columns, metadata and rows."""
    try:
        tables = [discover(path, wanted, "--file") for path in (made, given)]
        first, second = (table.inspect(table.paths[0]) for table in tables)
        if first.schema is None or second.schema is None or not first.schema.equals(second.schema, check_metadata=True):
            return False
        types = dict(zip(first.names, first.schema.types, strict=True))
        pieces = (table.pieces(table.paths[0], types, Cut(PIECE_ROWS)) for table in tables)
        return all(one is not None and other is not None and one.batch.equals(other.batch) for one, other in itertools.zip_longest(*pieces))
    except (JobError, DataError, StorageError, pa.ArrowException):
        return False  # no table of this format
