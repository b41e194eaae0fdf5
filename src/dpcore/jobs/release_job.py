"""Reads the job files of `dpcore release`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.jobs.loading import load
from dpcore.jobs.parsing import parse
from dpcore.query.request import ENTRIES, ReleaseJob, within_budget

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.jobs.settings import Settings


def parse_release_job(document: dict[str, Any]) -> ReleaseJob:
    """Check a job that is given as a dictionary.

    Parameters
    ----------
    document : dict
        The content of a job file, as `tomllib.load` returns it.

    Returns
    -------
    ReleaseJob
        The checked job.

    Raises
    ------
    JobError
        If it is not a job: the message has a line for each mistake, with the key's path, its value and what is allowed.
    ParameterTypeError
        If `document` is not a dict.
    BudgetError
        If the queries spend more than `[privacy]` allows.

    Notes
    -----
    Cost: no file is read.

    Examples
    --------
    >>> from dpcore.batch import parse_release_job
    >>> job = parse_release_job(
    ...     {
    ...         "version": 1,
    ...         "input": {"path": "people.parquet"},
    ...         "output": {"path": "answers.json"},
    ...         "privacy": {"max_epsilon": 1.0},
    ...         "query": [{"name": "n", "kind": "count", "epsilon": 1.0}],
    ...     }
    ... )
    >>> job.total.epsilon, job.query[0].kind  # the number of rows is public here
    (0.0, 'count')
    """
    return within_budget(parse(ReleaseJob, document, ENTRIES))


def load_unlimited(path: str | Path, settings: Settings) -> ReleaseJob:
    """Read and check a job file whose queries may spend more than `[privacy]` allows, for `dpcore plan`, which says so."""
    return load(path, lambda document: parse(ReleaseJob, document, ENTRIES), ReleaseJob, ENTRIES, settings)


def load_release_job(path: str | Path, *, settings: Settings | None = None) -> ReleaseJob:
    r"""Read and check a job file.

    Parameters
    ----------
    path : str or Path
        A TOML file.
    settings : Settings, optional
        Keys and variables that the command line sets. Default: `${DATE}` alone is known.

    Returns
    -------
    ReleaseJob
        The checked job.

    Raises
    ------
    JobError
        If it is not TOML or not a release job.
    BudgetError
        If the queries spend more than `[privacy]` allows.
    StorageError
        If it cannot be read.
    ParameterTypeError
        If `path` is not a path.

    Notes
    -----
    Cost: one file of at most 16 MiB is read.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from dpcore.batch import load_release_job
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "job.toml")
    ...     text = 'version = 1\n[input]\npath = "people.parquet"\n[output]\npath = "answers.json"\n[privacy]\nmax_epsilon = 1\n'
    ...     query = '[[query]]\nname = "all"\nkind = "count"\nepsilon = 1\n'
    ...     _ = path.write_text(text + query)
    ...     load_release_job(path).input.path
    'people.parquet'
    """
    return load(path, parse_release_job, ReleaseJob, ENTRIES, settings)
