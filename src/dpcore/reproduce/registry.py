"""Which studies there are: every module of `dpcore.reproduce.studies` that defines `STUDY`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dpcore.errors import ParameterError
from dpcore.reproduce import studies as _package
from dpcore.reproduce.results import Section
from dpcore.reproduce.setting import Setting

ALL = "all"
"""Stands for every study."""


@dataclass(frozen=True, slots=True)
class Study:
    """What `dpcore reproduce NAME` runs.

    Attributes
    ----------
    name : str
        On the command line.
    summary : str
        One line of help.
    titles : tuple of str
        Of its sections, in order: document and number, then what is claimed.
    sections : callable
        Measures them, one after the other.
    extra : tuple of str, optional
        The extra of dpcore that it needs, and the package in it.
    """

    name: str
    summary: str
    titles: tuple[str, ...]
    sections: Callable[[Setting], Iterator[Section]]
    extra: tuple[str, str] | None = None


def known_studies() -> dict[str, Study]:
    """Find all studies, by name, in the order of their titles.

    Examples
    --------
    >>> from dpcore.reproduce import known_studies
    >>> "overfitting" in known_studies()
    True
    """
    modules = (importlib.import_module(f"{_package.__name__}.{info.name}") for info in pkgutil.iter_modules(_package.__path__))
    found: list[Study] = [module.STUDY for module in modules if hasattr(module, "STUDY")]
    return {study.name: study for study in sorted(found, key=lambda study: study.titles[0])}


def chosen_studies(names: Sequence[str]) -> list[Study]:
    """Look studies up.

    Parameters
    ----------
    names : sequence of str
        Names of studies; "all" stands for every one.

    Raises
    ------
    ParameterError
        If there is no study of a name, or one of them needs an extra that is not installed.
    """
    known = known_studies()
    for name in names:
        if name != ALL and name not in known:
            raise ParameterError(f"name must be one of {', '.join([*known, ALL])}, got {name!r}")
    chosen = [study for study in known.values() if study.name in names or ALL in names]
    for study in chosen:
        _check_installed(study)
    return chosen


def _check_installed(study: Study) -> None:
    """Before anything is measured: with `all`, the study that cannot run may be the last one."""
    if study.extra is None:
        return
    extra, package = study.extra
    if importlib.util.find_spec(package) is None:
        raise ParameterError(f"the experiment {study.name} needs the extra `{extra}`: pip install 'dpcore[{extra}]'")
