"""A job of a schedule with a running total: a file of rows for each week, a state, a ledger."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcore.accounting import Ledger
from dpcore.cli import run
from support.jobs import KEY, toml, write_table
from support.releases import inline

FIRST = dt.date(2026, 1, 5)
STEPS = 4
COUNTS = (30, 10, 50, 20)
"""Rows of the weeks."""


def week(number: int) -> str:
    """The date of a step."""
    return str(FIRST + dt.timedelta(7 * (number - 1)))


class Series:
    """The files of a series in a folder, and runs of its job.

    Parameters
    ----------
    folder : Path
        Its folder, which is made.
    ledger : bool
        Whether a ledger pays.
    query : mapping
        Keys of the query in place of the usual ones; None takes one away.
    keyed : bool
        Whether the noise is that of a test key.
    """

    def __init__(self, folder: Path, *, ledger: bool = True, keyed: bool = False, query: Mapping[str, Any] | None = None, **privacy: Any):
        self.folder, self.budget, self.state = folder, folder / "budget.ledger", folder / "state" / "visits.state"
        self.job, self.has_ledger, self.keyed = folder / "job.toml", ledger, keyed
        self.query = {
            "name": "visits", "kind": "running_total", "steps": STEPS, "step": "${DATE}", "first": str(FIRST), "every": "week",
            "state": str(self.state), "epsilon": 1.0, "delta": 1e-6,
        } | dict(query or {})  # fmt: skip
        self.privacy = {"max_epsilon": 1.0, "max_delta": 1e-6, "relation": "add_remove"} | privacy
        folder.mkdir(parents=True, exist_ok=True)
        for number, count in enumerate(COUNTS, 1):
            self.rows(number, count)
        self.write()
        self.clear()

    def rows(self, number: int, count: int) -> None:
        """Write the rows of a week."""
        index = range(count)
        columns = {"person": [i // 3 for i in index], "g": ["abc"[i % 3] for i in index], "x": list(index)}
        types = {"person": pa.int64(), "g": pa.string(), "x": pa.int64()}
        table = pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})
        write_table(table, self.folder / f"in-{week(number)}.parquet")

    def write(self, **query: Any) -> None:
        """Write the job, with some keys of the query changed."""
        lines = ["version = 1", "[input]", f"path = {toml(str(self.folder / 'in-${DATE}.parquet'))}"]
        lines += ["[output]", f"path = {toml(str(self.folder / 'out' / 'total-${DATE}.json'))}"]
        lines += ["[privacy]", *(f"{key} = {toml(value)}" for key, value in self.privacy.items())]
        lines += ["[ledger]", f"path = {toml(str(self.budget))}"] if self.has_ledger else []
        lines += ["[testing]", f'key_hex = "{KEY.hex()}"'] if self.keyed else []
        given = {key: value for key, value in (self.query | query).items() if value is not None}
        lines += ["[[query]]", *(f"{key} = {inline(value)}" for key, value in given.items())]
        self.job.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def clear(self) -> None:
        """Begin anew: no state, no output, nothing spent."""
        for folder in (self.folder / "out", self.state.parent):
            for path in folder.iterdir() if folder.exists() else ():
                path.unlink()
        self.budget.unlink(missing_ok=True)
        if self.has_ledger:
            unit = {} if "unit" not in self.privacy else {"unit": self.privacy["unit"]}
            Ledger.create(self.budget, epsilon=10.0, delta=1e-5, relation=self.privacy["relation"], **unit)

    def arguments(self, number: int) -> tuple[object, ...]:
        """The command of a step."""
        return ("release", self.job, "--set", f"DATE={week(number)}")

    def run(self, number: int, *more: object) -> tuple[int, str]:
        """Run a step: the exit code, and what was said."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*map(str, (*self.arguments(number), *more))])
        return code, err.getvalue()

    def done(self, number: int, *more: object) -> dict[str, Any]:
        """Run a step, which must succeed; its answer."""
        code, said = self.run(number, *more)
        assert code == 0, said
        return self.answer(number)

    def output(self, number: int) -> Path:
        """The output of a step."""
        return self.folder / "out" / f"total-{week(number)}.json"

    def answer(self, number: int) -> dict[str, Any]:
        """The published answer of a step."""
        found: dict[str, Any] = json.loads(self.output(number).read_text(encoding="utf-8"))["queries"][0]
        return found

    def kept(self) -> dict[str, Any]:
        """The state."""
        found: dict[str, Any] = json.loads(self.state.read_text(encoding="utf-8"))
        return found

    def spent(self) -> list[float | None]:
        """The ε of each entry of the ledger."""
        return [entry.epsilon for entry in Ledger(self.budget).entries()]
