"""The words of messages about a ledger that depend on the door: here those for a job file, which name its keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpcore.tables.sections import JobFile


class JobWords:
    """The words of a job file and of the command that runs it."""

    def key(self, table: str, name: str) -> str:
        """The name of a key for the user."""
        return f"{table}.{name}"

    def setting(self, table: str, keys: Mapping[str, str]) -> str:
        """What to write for keys of a table to have these values."""
        return f"{' and '.join(f'{name} = {quoted(value)}' for name, value in keys.items())} under [{table}]"

    def settings(self, settings: list[str]) -> str:
        """Several of them, as a demand."""
        return f"write {' and '.join(settings)}"

    def another_ledger(self, job: JobFile, path: str) -> str:
        """How to take another ledger than that at a path, as a demand."""
        beside = Path(path)
        return f"name another as ledger.path: {ledger_command(job, str(beside.with_name(f'{beside.stem}-2{beside.suffix}')))}"

    def too_little(self, needs: str, path: str, left: str) -> str:
        """That a ledger has less left than is asked for, and what to do."""
        from dpcore._disk.addresses import argument

        shown = f"`dpcore ledger show {argument(path)}` lists what was spent"
        steps = f"{shown}; `dpcore plan JOB` says how exact answers are for less, and so what the rest buys"
        return f"the job needs {needs}, but the ledger {path} has {left} left. {steps}"


def quoted(value: str) -> str:
    """A text as TOML and Python write it."""
    return json.dumps(value, ensure_ascii=False)


def ledger_command(job: JobFile, path: str) -> str:
    """The command that makes a ledger that can pay for the job once."""
    import shlex

    from dpcore._disk.addresses import argument

    total = job.total
    # A ledger needs a positive budget; for a free run propose the job's limit.
    epsilon = total.epsilon or job.privacy.max_epsilon
    words = ["dpcore ledger create", argument(path), f"--epsilon {epsilon!r}"]
    if total.delta:
        words.append(f"--delta {total.delta!r}")
    if total.relation != "replace":
        words.append(f"--relation {total.relation}")
    if job.privacy.unit != "row":
        words.append(f"--unit {shlex.quote(job.privacy.protected)}")
    if job.input.dataset is not None:
        words.append(f"--dataset {shlex.quote(job.input.dataset)}")
    said = "this is what one run spends" if total.epsilon else "one run spends nothing of it"
    return f"{' '.join(words)} ({said}; give what all runs together may spend)"


OF_A_JOB = JobWords()
