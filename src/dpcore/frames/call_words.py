"""The words of messages about a ledger for a question in Python, which name its parameters: there is no job file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcore.tables.output.job_words import JobWords, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.tables.sections import JobFile


class CallWords(JobWords):
    """The words of a call."""

    def key(self, table: str, name: str) -> str:  # noqa: ARG002
        return name

    def setting(self, table: str, keys: Mapping[str, str]) -> str:  # noqa: ARG002
        return " and ".join(f"{name}={quoted(value)}" for name, value in keys.items())

    def settings(self, settings: list[str]) -> str:
        return f"give {' and '.join(settings)}"

    def another_ledger(self, job: JobFile, path: str) -> str:  # noqa: ARG002
        return "make another: accounting.Ledger.create"

    def too_little(self, needs: str, path: str, left: str) -> str:
        return f"this needs {needs}, but the ledger {path} has {left} left; nothing is spent"


OF_A_CALL = CallWords()
