"""What the fuzzer counts as a finding: each promise has a target that breaks it."""

from __future__ import annotations

import os
import random
import sqlite3
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from dpcore._backend import text as text_backend
from dpcore.accounting.ledger import rows
from dpcore.errors import DataError, JobError
from dpcore.tables.sql import syntax
from dpcore.tables.sql.allowed import FUNCTIONS, Function
from fuzz import json_text, thrift, toml_text, typed_seeds
from fuzz.choices import Choices
from fuzz.csv_files import CsvFiles
from fuzz.expressions import Expressions
from fuzz.ledgers import Ledgers
from fuzz.registry import inputs
from fuzz.states import States
from fuzz.target import MARK, FoundError, Target, attempt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the targets have links, named pipes and rights of files of POSIX")


class Broken(Target):
    """Does what its input says."""

    name = "broken"
    promise = ""

    def run(self, data):
        match data:
            case b"foreign":
                raise KeyError(data)
            case b"quoting":
                raise DataError(f"row 3: {MARK}")
            case b"chained":
                try:
                    raise ValueError(MARK)  # noqa: TRY301
                except ValueError:
                    raise DataError("row 3")  # noqa: B904  # what is tried
            case b"grouped":
                raise DataError("row 3") from ExceptionGroup("", [ValueError(MARK)])
            case b"interrupted":
                raise KeyboardInterrupt
            case b"noted":
                error = DataError("row 3")
                error.add_note(MARK)
                raise error
            case b"written":
                Path("left").touch()
                raise JobError("no")
            case b"changed":
                Path("there").write_bytes(b"changed")
            case b"refused":
                raise JobError("no")
            case b"accepted":
                Path("output").touch()


@pytest.fixture
def broken(tmp_path):
    (tmp_path / "there").touch()
    return Broken(tmp_path)


QUOTED = "a message holds a value of the data"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"foreign", "KeyError left"),
        (b"quoting", QUOTED),
        (b"chained", QUOTED),
        (b"grouped", QUOTED),
        (b"noted", QUOTED),
        (b"written", r"JobError was raised, and these files .*left"),
        (b"changed", r"nothing was raised, and these files .*there"),
    ],
)
def test_a_broken_promise_is_found(broken, data, words):
    with pytest.raises(FoundError, match=words):
        attempt(broken, data)
    assert not (broken.folder / "left").exists()


def test_an_interruption_is_no_finding(broken):
    with pytest.raises(KeyboardInterrupt):
        attempt(broken, b"interrupted")


def test_an_input_that_is_refused_or_accepted_is_no_finding(broken):
    assert attempt(broken, b"refused").refusal == "JobError"
    assert attempt(broken, b"accepted").refusal == ""
    assert [path.name for path in broken.folder.iterdir()] == ["there"]


def test_memory_and_time_are_limits(broken, monkeypatch):
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("memory is read as Linux tells it")
    held = []
    monkeypatch.setattr(Broken, "run", lambda _, data: held.append(b"x" * (len(data) << 20)))
    monkeypatch.setattr(Broken, "megabytes", 100)
    attempt(broken, b"1" * 10, limits=True)
    with pytest.raises(FoundError, match="memory"):
        attempt(broken, b"1" * 300, limits=True)
    monkeypatch.setattr(Broken, "seconds", -1.0)
    with pytest.raises(FoundError, match="CPU"):
        attempt(broken, b"", limits=True)


@pytest.mark.parametrize("text", ["derive:txid_current()", "where:txid_current() > a"])
def test_a_function_too_many_is_found(tmp_path, text):
    """As if the list of allowed functions had one that is not pure. The database itself refuses `TRY` around a volatile one."""
    target = Expressions(tmp_path)
    assert attempt(target, text.encode()).refusal
    with mock.patch.dict(FUNCTIONS, {"txid_current": Function()}), pytest.raises(FoundError, match="calls"):
        attempt(target, text.encode())


@pytest.mark.parametrize("text", ["where:a > 1", "derive:a + b", "where:s IS NULL OR f"])
def test_another_meaning_is_found(tmp_path, text):
    """As if comparisons were turned round, sums were differences, and OR were AND."""
    target = Expressions(tmp_path)
    assert not attempt(target, text.encode()).refusal
    original = syntax.parsed

    def turned(node):
        if not isinstance(node, syntax.Call):
            return node
        name = {">": "<", "+": "-", "OR": "AND"}.get(node.name, node.name)
        return syntax.Call(node.kind, name, tuple(map(turned, node.parts)))

    with (
        mock.patch("dpcore.tables.sql.program.parsed", lambda *given: turned(original(*given))),
        pytest.raises(FoundError, match="plain Python"),
    ):
        attempt(target, text.encode())


def test_another_number_of_rows_is_found(tmp_path):
    """As if empty lines were records."""
    target, data = CsvFiles(tmp_path), b"visits,label\n1,a\n\n2,b\n"
    attempt(target, data)
    kernels = text_backend._text
    as_if = SimpleNamespace(**{name: getattr(kernels, name) for name in dir(kernels)})
    as_if.split = lambda content, final, _, *more: kernels.split(content, final, False, *more)
    with mock.patch.object(text_backend, "_text", as_if), pytest.raises(FoundError, match="3 rows"):
        attempt(target, data)


def test_a_ledger_that_forgets_is_found(tmp_path):
    """As if no digest were checked."""
    target = Ledgers(tmp_path)

    def changed(path, _):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute("UPDATE spend SET epsilon = '0.25' WHERE id = 3")
        connection.close()
        return 1, False

    with mock.patch("fuzz.ledgers.damaged", changed):
        assert attempt(target, b"").refusal == "OSError"
        with mock.patch.object(rows, "_digest", lambda _, values: values and "0"), pytest.raises(FoundError, match="damage is not noticed"):
            attempt(Ledgers(tmp_path), b"")
    assert target._spent == Fraction(1.25) * 9


def test_a_state_that_is_not_checked_is_found(tmp_path):
    target = States(tmp_path)
    changed = target.seeds()["tree-as-it-is"].replace(b'"totals": [', b'"totals": [1')
    assert attempt(target, changed).refusal == "StorageError"
    with mock.patch("dpcore.tables.output.state_file._digest", return_value="0" * 64), pytest.raises(FoundError, match="nobody wrote"):
        attempt(target, changed.replace(b'"digest": "', b'"digest": "' + b"0" * 64 + b'", "other": "'))


# Mutations


def test_mutations_of_jobs_are_jobs():
    documents = [toml_text.parsed(path.read_bytes()) for path in inputs("jobs")]
    mutator, rng = toml_text.TomlMutator([each for each in documents if each is not None]), random.Random(1)
    made = [mutator.mutated(path.read_bytes(), rng) for path in inputs("jobs") for _ in range(5)]
    parsed = [toml_text.parsed(each) for each in made if each is not None]
    assert sum(each is not None for each in parsed) > 0.9 * len(parsed) > 20
    assert (
        toml_text.written({"a": 1, "t": {"x": [1.5, "é"]}, "q": [{"k": True}, {}]}).decode()
        == 'a = 1\n\n[t]\nx = [1.5, "é"]\n\n[[q]]\nk = true\n\n[[q]]\n'
    )


def test_a_footer_is_written_as_it_was_read():
    for data in typed_seeds.parquet_files().values():
        fields = thrift.footer(data)
        assert fields is not None
        assert thrift.with_footer(data, fields) == data
    rng = random.Random(1)
    changed = [thrift.with_another_footer(data, rng) for data in typed_seeds.parquet_files().values() for _ in range(20)]
    assert sum(each is not None and thrift.footer(each) is not None for each in changed) > 0.9 * len(changed)
    assert thrift.footer(b"PAR1 nothing") is None


def test_mutations_of_json_are_json():
    rng, document = random.Random(1), {"a": [1, {"b": None}], "c": "text"}
    made = [json_text.mutated(document, rng, ("d",)) for _ in range(200)]
    assert all(json_text.parsed(json_text.written(each)) is not None or each is None for each in made)
    assert sum(each not in (None, document) for each in made) > 150
    assert document == {"a": [1, {"b": None}], "c": "text"}


def test_decisions_end_with_the_first_option():
    script = Choices(b"\x05\x01\x00")
    assert (script.below(4), script.of("abc"), script.number(), script.is_over) == (1, "b", 0, True)
    assert (script.below(10), script.of("abc"), script.taken(3)) == (0, "a", b"")
