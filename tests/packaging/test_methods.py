"""What type checkers and editors read of the methods of tables is what the kinds of queries say, and mypy takes it so."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("pyarrow")

import dpcore
from dpcore.frames._methods import Methods
from dpcore.frames.signatures import Described
from dpcore.query.kinds import METHODS
from support.method_stubs import stub

STUB = Path(dpcore.__file__).parent / "frames" / "_methods.pyi"
SAMPLES = {
    "str": ('"x"', "1"),
    "int": ("1", '"x"'),
    "bool": ("True", '"x"'),
    "float": ("1.5", '"x"'),
    "str | int": ("1", "1.5"),
    "Bound": ("date(2024, 1, 1)", "[1]"),
    "Listed": ('["a", "b"]', "1"),
    "Points": ('{"start": 0, "stop": 1, "step": 1}', "1"),
    "float | Sequence[float]": ("[0.1, 0.9]", '"x"'),
    "float | Literal['skip']": ('"skip"', '"leave"'),
    "Sequence[str]": ('["x", "y"]', "1"),
    "Sequence[float]": ("(0, 1)", "1"),
    "Sequence[float] | Literal['skip']": ('"skip"', '"leave"'),
    "Literal['skip']": ('"skip"', '"leave"'),
    "Literal['private']": ('"private"', '"public"'),
    "Literal[0, 1]": ("0", "2"),
    "Literal['gumbel', 'peeling', 'oneshot_laplace']": ('"peeling"', '"other"'),
}
"""A right and a wrong argument for each type that an argument has."""
SETTINGS = """
[mypy]
strict = True
follow_imports = silent
cache_dir = {cache}
[mypy-dpcore.query.methods,dpcore.frames.*]
follow_imports = silent
[mypy-dpcore.*,pydantic.*,scipy.*,pyarrow.*,duckdb.*,pandas.*,polars.*]
follow_imports = skip
"""


@pytest.mark.source_tree
def test_the_committed_stub_is_what_the_kinds_say():
    """`make stubs` writes it."""
    committed = Path(__file__).resolve().parents[2] / "src" / "dpcore" / "frames" / "_methods.pyi"
    assert committed.read_text(encoding="utf-8") == stub()


def test_the_stub_is_installed():
    assert STUB.read_text(encoding="utf-8") == stub()


def test_the_stub_has_the_docstrings_and_arguments_of_the_class():
    """As Python itself reads both, whatever wrote them."""
    (kind,) = (node for node in ast.parse(STUB.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    found = {node.name: node for node in kind.body if isinstance(node, ast.FunctionDef)}
    assert set(found) == {name for name in vars(Methods) if not name.startswith("_")} == set(METHODS)
    for name, node in found.items():
        function = getattr(Methods, name)
        assert ast.get_docstring(node) == function.__doc__.rstrip()
        said = {each.arg: ast.unparse(each.annotation) for each in (*node.args.args[1:], *node.args.kwonlyargs)}
        assert {**said, "return": ast.unparse(node.returns)} == function.__annotations__
        defaults = [*node.args.defaults, *node.args.kw_defaults]
        assert [default is None for default in node.args.kw_defaults] == [each.is_required for each in Described.of(name).arguments[1:]]
        assert {ast.unparse(default) for default in defaults if default is not None} <= {"None"}


# mypy


def calls() -> list[tuple[str, str | None]]:
    """Lines of a program, each with the word of the error that mypy must find in it; None is right."""
    lines: list[tuple[str, str | None]] = []
    for name in METHODS:
        arguments = Described.of(name).arguments
        right = {each.name: SAMPLES[each.annotation.removesuffix(" | None")][0] for each in arguments}
        column, *others = arguments
        first = f"table.{name}({right[column.name]}, "
        needed = {each.name: right[each.name] for each in others if each.is_required}
        lines += [
            (f"taken({first}{keywords(right, but=column.name)}))", None),
            (f"{first}{keywords(dict.fromkeys(right, 'None'), but=column.name, over=needed)})", None),
            (f"grouped.{name}({keywords(right)})", None),
            (f"batch.{name}({keywords(right)})", None),
            (f"{first}{keywords(needed)}).values()", "attr-defined"),
            (f"{first}{right[others[0].name]}{keywords(needed, before=', ')})", "misc" if others[0].is_required else "call-arg"),
            (f"{first}{keywords(needed, after=', ')}eps=1.0)", "call-arg"),
        ]
        lines += [(f"{first}{keywords({**needed, each.name: wrong(each)})})", "arg-type") for each in others]
        lines += [(f"table.{name}({keywords({**needed, column.name: wrong(column)})})", "arg-type")]
        lines += [(f"{first}{keywords(needed, but=each)})", "call-arg") for each in needed]
    return [*lines, ("table.modus('x')", "attr-defined"), ("PrivateTable.mean(column='x')", "call-arg")]


def wrong(argument) -> str:
    return SAMPLES[argument.annotation.removesuffix(" | None")][1]


def keywords(given: dict[str, str], *, but: str = "", over: dict[str, str] | None = None, before: str = "", after: str = "") -> str:
    listed = ", ".join(f"{key}={value}" for key, value in {**given, **(over or {})}.items() if key != but)
    return f"{before}{listed}{after}" if listed else ""


HEAD = """\
from datetime import date
from dpcore.frames import GroupedTable, PrivateTable, TableBatch, TableResult

def taken(answer: TableResult) -> None: ...

def ask(table: PrivateTable, grouped: GroupedTable, batch: TableBatch) -> None:
"""


def errors_of(program: str, folder: Path) -> set[tuple[int, str]]:
    """The lines and the words of what mypy finds."""
    (folder / "asks.py").write_text(program, encoding="utf-8")
    (folder / "mypy.ini").write_text(SETTINGS.format(cache=folder / "cache"), encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--python-executable", sys.executable, "asks.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr, done.stderr
    return {(int(line), word) for line, word in re.findall(r"^asks\.py:(\d+): error: .*\[([a-z-]+)\]$", done.stdout, re.MULTILINE)}


@pytest.mark.long
def test_mypy_takes_right_arguments_and_refuses_wrong_ones(tmp_path):
    pytest.importorskip("mypy", reason="the extra dev is not installed")
    lines = calls()
    program = HEAD + "".join(f"    {line}\n" for line, _ in lines)
    first = HEAD.count("\n") + 1
    expected = {(number, word) for number, (_, word) in enumerate(lines, first) if word is not None}
    assert errors_of(program, tmp_path) == expected
    assert len(expected) > 130
