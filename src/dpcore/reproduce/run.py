"""Run studies and keep their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from dpcore._dataclasses import dataclass
from dpcore._version import __version__
from dpcore.errors import ParameterTypeError
from dpcore.reproduce.registry import ALL, Study, chosen_studies, known_studies
from dpcore.reproduce.results import Section
from dpcore.reproduce.setting import Setting
from dpcore.rng import STREAM_VERSION

Progress = Callable[[int, int], object]
"""Called as progress(done, total) after each section."""
FORMAT = 2
"""Format of the JSON file."""


@dataclass(frozen=True)
class Findings:
    """The results of studies.

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
    def hold(self) -> bool:
        """Whether all identities and findings hold."""
        return not self.broken("identity") and not self.broken("finding")

    def broken(self, kind: str) -> int:
        """Return the number of checks that do not hold.

        Parameters
        ----------
        kind : {"identity", "finding"}
            Which checks to count.

        Returns
        -------
        int
            Their number.
        """
        checks = (check for sections in self.studies.values() for section in sections for check in section.checks)
        return sum(check.kind == kind and not check.holds for check in checks)

    @property
    def command(self) -> str:
        """The command that repeats the run."""
        every = len(self.studies) == len(known_studies())
        options = f"--seed {self.setting.seed}{' --quick' if self.setting.quick else ''}"
        return " && ".join(f"dpcore reproduce {name} {options}" for name in ([ALL] if every else [study.name for study in self.studies]))

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON file.

        Returns
        -------
        dict
            `{format: 2, version, stream_version, secure: false, seed, quick, command, studies: [{name, summary, source, sections: [{title,
            statement, setup, figures, slopes, checks, remark, tables}]}]}`.
        """
        studies = [
            {
                "name": study.name,
                "summary": study.summary,
                "source": asdict(study.source),
                "sections": [section.document() for section in sections],
            }
            for study, sections in self.studies.items()
        ]
        return {
            "format": FORMAT,
            "version": __version__,
            "stream_version": STREAM_VERSION,
            "secure": False,
            "seed": self.setting.seed,
            "quick": self.setting.quick,
            "command": self.command,
            "studies": studies,
        }


def run(names: Sequence[str], setting: Setting, *, progress: Progress | None = None) -> Findings:
    """Run studies, one after the other.

    Parameters
    ----------
    names : sequence of str
        Names of studies; "all" stands for every study.
    setting : Setting
        Seed and size. The same setting gives the same results on every machine.
    progress : callable, optional
        Called as progress(done, total) after each section.

    Returns
    -------
    Findings
        The sections of each study.

    Raises
    ------
    ParameterError
        If no study has one of the names, or a study needs an extra that is not installed.
    ParameterTypeError
        If `progress` is not callable.

    Notes
    -----
    Cost: from some seconds to a minute for a study, a few seconds for each with `Setting(quick=True)`.

    Examples
    --------
    >>> from dpcore.reproduce import Setting, run
    >>> run([], Setting()).document()["secure"]
    False
    """
    if progress is not None and not callable(progress):
        raise ParameterTypeError(f"progress must be a function progress(done, total) or None, got {type(progress).__name__}")
    chosen = chosen_studies(names)
    total, done = sum(len(study.titles) for study in chosen), 0
    studies = {}
    for study in chosen:
        sections = []
        for section in study.sections(setting):
            sections.append(section)
            done += 1
            if progress is not None:
                progress(done, total)
        studies[study] = tuple(sections)
    return Findings(setting, studies)
