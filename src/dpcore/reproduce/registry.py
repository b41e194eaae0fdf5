"""The known studies: every module of `dpcore.reproduce.studies` that defines `STUDY`."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Callable, Iterator, Sequence

from dpcore._dataclasses import dataclass
from dpcore._extras import needs, words_of_old
from dpcore.errors import ParameterError
from dpcore.reproduce import studies as _package
from dpcore.reproduce.results import Section
from dpcore.reproduce.setting import Setting
from dpcore.reproduce.sources import Source, source_of

ALL = "all"
"""Name that stands for every study."""


@dataclass(frozen=True, slots=True)
class Study:
    """A study: the work of `dpcore reproduce NAME`.

    Attributes
    ----------
    name : str
        Name on the command line.
    summary : str
        One line of help.
    titles : tuple of str
        Titles of its sections, in order: document and number, then the claim. All sections are about one document.
    sections : callable
        Takes a `Setting` and yields the sections, one after the other.
    extra : tuple of str, optional
        The extra of dpcore that the study needs, and a package in it.
    """

    name: str
    summary: str
    titles: tuple[str, ...]
    sections: Callable[[Setting], Iterator[Section]]
    extra: tuple[str, str] | None = None

    @property
    def source(self) -> Source:
        """The document that the study is about."""
        return source_of(self.titles[0])


def known_studies() -> dict[str, Study]:
    """Return all studies by name, in the order of their titles.

    Returns
    -------
    dict
        From the name to the `Study`.

    Raises
    ------
    ImportError
        If a module of a study cannot be imported.

    Notes
    -----
    Cost: the first call imports the modules of all studies, which takes about a second.

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
    """Return studies by their names.

    Parameters
    ----------
    names : sequence of str
        Names of studies; "all" stands for every study.

    Raises
    ------
    ParameterError
        If no study has one of the names, or a study needs an extra that is not installed.
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
    """Raise if the extra of a study is missing, before any study runs: with `all`, it may be the last one."""
    if study.extra is None:
        return
    extra, package = study.extra
    if importlib.util.find_spec(package) is None:
        raise ParameterError(needs(f"the study {study.name} needs", extra))
    if words := words_of_old(package):
        raise ParameterError(f"the study {study.name} cannot run: {words}")
