"""Runs studies and keeps what they find."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dpcore._version import __version__
from dpcore.reproduce.registry import Study, chosen_studies
from dpcore.reproduce.results import Section
from dpcore.reproduce.setting import Setting
from dpcore.rng import STREAM_VERSION

Progress = Callable[[str, float], object]
"""Called after each section with its title and the seconds it took."""


def _silent(_title: str, _seconds: float) -> None:
    """No progress is shown."""


@dataclass(frozen=True)
class Findings:
    """What studies found.

    Attributes
    ----------
    setting : Setting
        Seed and size of the run.
    studies : dict
        The sections of each study.
    """

    setting: Setting
    studies: dict[Study, tuple[Section, ...]]

    @property
    def kept(self) -> bool:
        """Whether all promises were kept."""
        return all(check.holds for sections in self.studies.values() for section in sections for check in section.checks)

    def document(self) -> dict[str, Any]:
        """Give the content of the JSON file.

        Returns
        -------
        dict
            `{format: 1, version, stream_version, secure: false, seed, quick, experiments: [{name, summary, sections: [{title, statement,
            setup, figures, slopes, checks, remark}]}]}`.
        """
        experiments = [
            {"name": study.name, "summary": study.summary, "sections": [section.document() for section in sections]}
            for study, sections in self.studies.items()
        ]
        return {
            "format": 1,
            "version": __version__,
            "stream_version": STREAM_VERSION,
            "secure": False,
            "seed": self.setting.seed,
            "quick": self.setting.quick,
            "experiments": experiments,
        }


def run(names: Sequence[str], setting: Setting, *, progress: Progress = _silent) -> Findings:
    """Run studies, one after the other.

    Parameters
    ----------
    names : sequence of str
        Names of studies; "all" stands for every one.
    setting : Setting
        Seed and size. The same setting gives the same findings on every machine.
    progress : callable, optional
        Called after each section with its title and the seconds it took.

    Returns
    -------
    Findings
        The sections of each study.

    Raises
    ------
    ParameterError
        If there is no study of a name.

    Examples
    --------
    >>> from dpcore.reproduce import Setting, run
    >>> run([], Setting()).document()["secure"]
    False
    """
    return Findings(setting, {study: tuple(_timed(study, setting, progress)) for study in chosen_studies(names)})


def _timed(study: Study, setting: Setting, progress: Progress) -> Iterator[Section]:
    start = time.perf_counter()
    for section in study.sections(setting):
        progress(section.title, time.perf_counter() - start)
        yield section
        start = time.perf_counter()
