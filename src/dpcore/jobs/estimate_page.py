"""The page of `dpcore estimate --report`: for each column a plot, the numbers, and how to read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcore.pages.numbers import percentage_of
from dpcore.pages.page import Pages, Provenance
from dpcore.pages.words import NOT_SECURE, guarantee_shown, misses_in_words

if TYPE_CHECKING:
    from pathlib import Path

    from dpcore.jobs.estimate import Estimates


class EstimatePages(Pages):
    """The files of `estimate --report DIR`.

    Parameters
    ----------
    folder : Path
        Where the files go. It is made if it does not exist.
    name : str
        The name of both files, without their endings.
    """

    template = "estimate"

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__(folder, name)

    def content(self, subject: Estimates) -> tuple[dict[str, Any], dict[str, Any]]:
        from dpcore.jobs.estimate_sections import section_of

        whole = subject.whole
        shown = {
            "columns": [section_of(number, column) for number, column in enumerate(subject.columns, 1)],
            "guarantee": guarantee_shown(whole.epsilon, whole.delta, whole.unit, local=True),
            "alarm": NOT_SECURE,
            "confidence": percentage_of(subject.confidence),
            "misses": misses_in_words([subject.confidence], at_most=any(column.column.skips for column in subject.columns)),
            "target": subject.target,
            "provenance": Provenance(subject.path, len(subject.files)),
        }
        return subject.document(), shown
