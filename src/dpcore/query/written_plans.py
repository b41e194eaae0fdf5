"""Plans of release jobs whose answers go to files: the names of these are checked, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.errors import JobError
from dpcore.query.found_files import check_outside, found_inputs, places_of
from dpcore.query.plan import declared_reads, planned
from dpcore.query.request import ReleaseJob
from dpcore.tables.checks import check_curator, check_is
from dpcore.tables.discovery import check_output_is_outside
from dpcore.tables.file_checks import check_files, check_files_are_free
from dpcore.tables.output import metadata
from dpcore.tables.output.charge import Charge
from dpcore.tables.output.publication import Publication
from dpcore.tables.output.state_file import StateFile
from dpcore.tables.places import LOG, REPORT, output_place
from dpcore.tables.sections import OutputSection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from dpcore._disk.addresses import Location
    from dpcore.query.commitments import Commitment
    from dpcore.query.plan import ReleasePlan
    from dpcore.tables.inputs import Inputs
    from dpcore.tables.output.charge import Spend
    from dpcore.tables.output.key_file import KeyFile
    from dpcore.tables.places import Place


def make_release_plan(
    job: ReleaseJob,
    *,
    overwrite: bool = False,
    curator: bool = False,
    others: Sequence[Place] = (),
    commit: str | Path | None = None,
    public_randomness: str | None = None,
) -> ReleasePlan:
    """Check a job against its input's schema and its output's place. Nothing is written.

    Parameters
    ----------
    job : ReleaseJob
        A job within its budget.
    overwrite : bool, default False
        Accept an output that exists.
    curator : bool, default False
        Let messages say which rows are at fault, and which columns a CSV has. This is outside the guarantee.
    others : sequence of (str, Path), default ()
        As in `make_plan`.
    commit : str or Path, optional
        Key file that a run of the plan makes, so that the release can be replayed by `verify`. It is as secret as the data: with the
        answers it gives the exact statistics. One that `deposit` or a run of this job that ended early has left is used.
    public_randomness : str, optional
        Hexadecimal digits that the public announced after the commitment of `commit` was deposited.

    Returns
    -------
    ReleasePlan
        What the job will do.

    Raises
    ------
    ParameterTypeError
        If `job` is not a job of this kind.
    JobError
        If a column is missing or of a type its query does not take, the output exists already, or a row could end a job that has a
        ledger. With `commit`, if the key file is something else or of another run, or the release cannot be replayed.
    BudgetError
        If the ledger does not have what the job spends.
    StorageError
        If the input, the ledger or a file of categories cannot be read.

    Notes
    -----
    Cost: only the schemas of the input files are read, and files of categories.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> from dpcore.batch import make_release_plan, parse_release_job
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
    ...     plan = make_release_plan(parse_release_job(job))
    >>> plan.estimators[0].noise[0].law, plan.rows
    ('laplace', 1000)
    """
    check_is("job", job, ReleaseJob, "load_release_job or parse_release_job")
    check_curator(job, curator=curator)
    commitment = _commitment(job, commit, public_randomness, overwrite=overwrite)
    inputs, tables = found_inputs(job, others)
    others = [*others, *places_of(tables.values())]
    return written_plan(job, inputs, tables, overwrite=overwrite, curator=curator, others=others, commitment=commitment)


def _commitment(job: ReleaseJob, commit: str | Path | None, public_randomness: str | None, *, overwrite: bool) -> Commitment | None:
    if commit is None:
        if public_randomness is not None:
            raise JobError("--public-randomness is for a release with --commit")
        return None
    if overwrite:
        raise JobError(
            "--commit makes one release of a run, and --overwrite another one: name another output.path, which makes another run, or "
            "remove the output"
        )
    from dpcore.query.commitments import committed

    return committed(job, commit, public_randomness)


def written_plan(
    job: ReleaseJob,
    inputs: Inputs,
    tables: Mapping[str, Inputs] | None = None,
    *,
    overwrite: bool = False,
    curator: bool = False,
    others: Sequence[Place] = (),
    commitment: Commitment | None = None,
) -> ReleasePlan:
    """The plan of a job that writes its answers, for any input and joined tables; the rest is that of `make_release_plan`."""
    reads = declared_reads(job)
    output = output_place(job.output.path, "output.path")
    files, states = files_of(job, output), _states_of(job)
    if commitment is not None:
        _check_key_file(job, commitment.file, [*files, *(place for place in others if place[0] in (LOG, REPORT))])
        others = [*others, commitment.file.place]
    check_files(job, inputs, [*files, *(state.place for state in states)], others)
    check_outside(job, [*files, *(state.place for state in states)])
    for state in states:
        state.check_apart([*files, *(place for place in others if place[0] in (LOG, REPORT))])

    def publication(spend: Spend) -> Publication:
        charge = Charge(job, spend, overwrite=overwrite)
        check_files_are_free(files, charge, overwrite=overwrite)
        return Publication([path for _, path in files], charge, overwrite=overwrite)

    return planned(job, inputs, reads, output, publication, curator=curator, tables=tables, commitment=commitment)


def deposit(job: ReleaseJob, commit: str | Path) -> dict[str, Any]:
    """Make the key file of a release before any data are read, and return its commitment, to be deposited with a third party.

    Parameters
    ----------
    job : ReleaseJob
        The job. Its input need not exist yet.
    commit : str or Path
        The key file, which must not exist. It is as secret as the data will be.

    Returns
    -------
    dict
        `commitment` (64 hexadecimal digits), `run` and `code`.

    Raises
    ------
    ParameterTypeError
        If `job` is not a job of this kind.
    JobError
        If its release cannot be replayed, or the key file exists, is beside an output or inside the input.
    StorageError
        If the file cannot be written, or a file of categories cannot be read.

    Notes
    -----
    Guarantee: the commitment hides the key, and binds to it, to the job and to this code. The noise of the release follows from the key and
    from the public randomness that `make_release_plan` is given, so neither who runs the job nor the public chooses it alone.

    Cost: no input is read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from dpcore.batch import deposit, parse_release_job
    >>> with TemporaryDirectory() as folder:
    ...     job = {
    ...         "version": 1,
    ...         "input": {"path": f"{folder}/people.parquet"},
    ...         "output": {"path": f"{folder}/out/answers.json"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "query": [{"name": "smokers", "kind": "mean", "column": "smoker", "lower": 0, "upper": 1, "epsilon": 1.0}],
    ...     }
    ...     said = deposit(parse_release_job(job), f"{folder}/keys/people.key")
    >>> len(said["commitment"]), sorted(said)
    (64, ['code', 'commitment', 'run'])
    """
    check_is("job", job, ReleaseJob, "load_release_job or parse_release_job")
    from dpcore.query.commitments import deposited

    made = deposited(job, commit)
    _check_key_file(job, made.file, files_of(job, output_place(job.output.path, "output.path")))
    with made:
        return {"commitment": made.digest, "run": made.run, "code": made.document()["code"]}


def _check_key_file(job: ReleaseJob, file: KeyFile, shown: Iterable[Place]) -> None:
    """Raise `JobError` if a key file is where others look, or where the next run reads."""
    file.check_apart(shown)
    check_output_is_outside(file.path, job.input, "--commit")
    check_outside(job, [file.place])


def files_of(job: ReleaseJob, output: Location) -> list[Place]:
    """Return the files that the job writes, in the order in which they appear: synthetic tables with their sidecars, then the answers."""
    files: list[Place] = []
    for position, query in enumerate(job.query):
        if query.table_path is not None:
            key = f"query[{position}].output"
            table = output_place(query.table_path, key)
            files += [(key, path) for path in metadata.output_files(table, OutputSection(path=query.table_path).resolved_format)]
    return [*files, ("output.path", output)]


def _states_of(job: ReleaseJob) -> list[StateFile]:
    """The files of what the next run of a series needs."""
    steps = ((position, query.step_of_series) for position, query in enumerate(job.query))
    return [StateFile(f"query[{position}].state", step.path) for position, step in steps if step is not None]
