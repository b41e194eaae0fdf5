"""State files of a series: what the next run reads of the one before."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, ClassVar

from dpcore.accounting import Ledger
from dpcore.batch import load_release_job, make_release_plan, release
from dpcore.jobs.settings import Settings
from fuzz import json_text
from fuzz.target import NUMBER_MARK, FoundError, Target
from support.running_totals import Series, week

if TYPE_CHECKING:
    import random
    from pathlib import Path

AGAIN = "again"
"""Stands for the digest of the state as it is, which somebody who writes the file can compute."""
SERIES: dict[str, dict[str, Any]] = {
    "factorisation": {},
    "tree": {"query": {"delta": None}},
    "groups": {"query": {"group_by": "g", "groups": ["a", "b"]}},
    "ledger": {"ledger": True},
}
KEYS = (
    "what",
    "format",
    "about",
    "step",
    "label",
    "before",
    "chain",
    "totals",
    "kept",
    "digest",
    "query[0]",
    "privacy",
    "input",
    "ledger",
    "testing",
)


class States(Target):
    """The JSON of a state behind a line that says of which series: factorisation, tree, groups or ledger."""

    name: ClassVar[str] = "states"
    promise: ClassVar[str] = (
        "a state that is not the one that was written is refused unless its digest is right; a series is paid for and goes on"
    )
    longest: ClassVar[int] = 6000
    words: ClassVar[tuple[str, ...]] = (*KEYS, *(f"{name}\n" for name in SERIES), AGAIN, "null", "[]", "NaN", '{"')

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._series: dict[str, Series] = {}
        self._states: dict[str, bytes] = {}
        for name, given in SERIES.items():
            series = Series(
                folder / name, ledger=given.get("ledger", False), keyed=not given.get("ledger", False), query=given.get("query", {})
            )
            # What the state keeps of the rows, and no message may show.
            series.rows(1, 40)
            series.done(1)
            self._series[name], self._states[name] = series, series.state.read_bytes()
        self._ledger = self._series["ledger"].budget.read_bytes()

    def seeds(self) -> dict[str, bytes]:
        """The states as they are, and with a digest that is made again."""
        found = {}
        for name, state in self._states.items():
            if name != "ledger":  # its noise differs from run to run
                found[f"{name}-as-it-is"] = b"%s\n%s" % (name.encode(), state)
            found[f"{name}-again"] = b"%s\n%s" % (name.encode(), json_text.written({**json.loads(state), "digest": AGAIN}))
            planted = json.loads(state)
            planted["kept"] = json.loads(json.dumps(planted["kept"]).replace("40", str(NUMBER_MARK)))
            found[f"{name}-planted"] = b"%s\n%s" % (name.encode(), json_text.written({**planted, "digest": AGAIN}))
        return found

    def mutated(self, data: bytes, rng: random.Random) -> bytes | None:
        name, _, content = data.partition(b"\n")
        document = json_text.parsed(content)
        if not isinstance(document, dict):
            return None
        changed = json_text.mutated(document, rng, KEYS, (AGAIN, week(1), week(2), 1, 2, *map(json.loads, self._states.values())))
        if isinstance(changed, dict) and rng.random() < 0.8:
            changed["digest"] = AGAIN
        return name + b"\n" + json_text.written(changed)

    def is_watched(self, path: Path) -> bool:
        return path.name == "job.toml"

    def run(self, data: bytes) -> None:
        tag, _, content = data.partition(b"\n")
        name = tag.decode(errors="replace")
        series = self._series.get(name) or self._series["factorisation"]
        genuine = self._states[series.folder.name]
        is_signed, content = _signed(content)
        self._begin(series, content)
        said = _planted(content)
        try:
            job = load_release_job(series.job, settings=Settings.read([f"DATE={week(2)}"]))
            document = release(make_release_plan(job), threads=1)
        except Exception as error:
            if said and str(NUMBER_MARK) in str(error):
                raise FoundError(f"a message holds what the state keeps of the rows: {error}") from error
            if series.state.read_bytes() != content or series.output(2).exists():
                raise FoundError(f"{type(error).__name__} was raised, and the state or the output is another one") from error
            raise
        finally:
            after = series.state.read_bytes()
            self._check_ledger(series)
            self._begin(series, genuine)
        if not is_signed and json_text.parsed(content) != json.loads(genuine):
            raise FoundError("a state that nobody wrote was gone on from")
        if json.loads(after)["step"] != 2 or document["queries"][0]["taken"] != 2:
            raise FoundError("the step was published, and the state does not have it")

    def _check_ledger(self, series: Series) -> None:
        if series.has_ledger and Ledger(series.budget).spent.epsilon != 1.0:
            raise FoundError(f"the ledger has {Ledger(series.budget).spent} for a series that costs 1")

    def _begin(self, series: Series, content: bytes) -> None:
        series.state.unlink(missing_ok=True)
        series.state.write_bytes(content)
        series.state.chmod(0o600)
        for path in (series.folder / "out").glob(f"*{week(2)}*"):
            path.unlink()
        if series.has_ledger:
            series.budget.write_bytes(self._ledger if hasattr(self, "_ledger") else series.budget.read_bytes())


def _signed(content: bytes) -> tuple[bool, bytes]:
    """Whether the input asks for its digest, and the content with it."""
    document = json_text.parsed(content)
    if not isinstance(document, dict) or document.get("digest") != AGAIN:
        return False, content
    del document["digest"]
    try:
        digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
        return True, json.dumps({**document, "digest": digest}).encode()
    except (ValueError, RecursionError, TypeError):
        return False, content


def _planted(content: bytes) -> bool:
    """Whether the planted number is in what the state keeps of rows, and nowhere else."""
    document = json_text.parsed(content)
    if not isinstance(document, dict):
        return str(NUMBER_MARK).encode() in content
    kept = str(NUMBER_MARK) in json.dumps(document.pop("kept", None))
    return kept and str(NUMBER_MARK) not in json.dumps(document)
