"""Every command line that a message, a help text, a draft or a page proposes is one that the command line takes."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest

pytest.importorskip("click")
pytest.importorskip("pydantic")

import click

import dpcore
from dpcore.cli import REFUSED, command_group, run
from support.jobs import write_table
from support.releases import clinic

PACKAGE = Path(dpcore.__file__).parent
NAMES = "init|privatize|estimate|release|ledger|reproduce|bench|completion|info"
PROPOSED = re.compile(rf"(?<![\w.=])dpcore ((?:{NAMES})\b(?!/)[^`;,\n\"]*)")
ENDS = re.compile(r" {2,}|\s#|\. |: |</|\)|…| --engine spark`| \(")
"""What ends a command line inside of a sentence or of help."""
WORD = "x1"
"""What stands in the place of a value that is only known when the message is made."""


def texts():
    """The texts of the package: strings, with a word for each value that is put into them, and templates; docstrings are not shown."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        hidden = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body and isinstance(node.body[0], ast.Expr)
        }
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            place = f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                yield place, "".join(part.value if isinstance(part, ast.Constant) else WORD for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in hidden | inside:
                yield place, node.value
    for path in sorted(PACKAGE.rglob("*.j2")):
        yield str(path.relative_to(PACKAGE)), re.sub(r"\{\{.*?\}\}", WORD, path.read_text(encoding="utf-8"))


def proposed(text):
    for found in PROPOSED.findall(text):
        yield ENDS.split(found, maxsplit=1)[0].strip().removesuffix(".").removesuffix(":")


def parsed(line):
    """Parse a command line, without doing what it says; a command that is only named, such as "dpcore release", has no arguments."""
    command, words = command_group(), shlex.split(line)
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, command, words = command.resolve_command(context, words)
        assert command is not None, name
        context = click.Context(command, info_name=name, parent=context)
    options = {text for each in command.params for text in each.opts} | {"--help", "-h"}
    for word in words:
        assert not word.startswith("--") or word.partition("=")[0] in options, f"{line}: no option {word}"
    return command, words


@pytest.mark.long
def test_every_command_line_in_a_text_has_a_command_and_options_that_exist():
    lines = [(place, line) for place, text in texts() for line in proposed(text)]
    assert len(lines) > 40
    assert any("ledger create" in line for _, line in lines)
    for place, line in lines:
        try:
            parsed(line)
        except (click.ClickException, AssertionError, ValueError) as error:
            pytest.fail(f"{place}: dpcore {line}: {error}")


@pytest.mark.parametrize("line", ["ledgers create x", "ledger make x", "release x --dry", "ledger create x --budget 4"])
def test_a_wrong_proposal_is_found(line):
    with pytest.raises((click.ClickException, AssertionError)):
        parsed(line)


JOBS = {
    "free": ({"max_epsilon": 2.0}, [{"name": "all", "kind": "count"}], "spends nothing"),
    "pure": (
        {"max_epsilon": 1.0},
        [{"name": "some", "kind": "count", "column": "visits", "lower": 0, "upper": 3, "epsilon": 1e-5}],
        "one run",
    ),
    "delta, unit and relation": (
        {"max_epsilon": 1.0, "max_delta": 1e-6, "unit": "person", "max_rows_per_unit": 2, "relation": "add_remove"},
        [{"name": "sum", "kind": "sum", "column": "visits", "lower": 0, "upper": 3, "missing": 0, "epsilon": 0.5, "delta": 1e-7}],
        "one run",
    ),
    "own rows": (
        {"max_epsilon": 1.0, "unit": "person", "max_rows_per_unit": 2, "null_unit": "own"},
        [{"name": "sum", "kind": "sum", "column": "visits", "lower": 0, "upper": 3, "missing": 0, "epsilon": 0.5}],
        "one run",
    ),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("ledger", ["study.ledger", "a study's $LEDGER.ledger", "-x.ledger"])
@pytest.mark.parametrize("kind", JOBS)
def test_the_ledger_that_a_refusal_proposes_pays_for_the_job(tmp_path, monkeypatch, capsys, kind, ledger):
    monkeypatch.chdir(tmp_path)
    privacy, queries, words = JOBS[kind]
    write_table(clinic(50), tmp_path / "in.parquet")
    keys = lambda table: "\n".join(f"{key} = {value!r}".replace("'", '"') for key, value in table.items())  # noqa: E731
    free = "\nepsilon = 1.0" if kind == "free" else ""
    Path("job.toml").write_text(
        f'version = 1\n[input]\npath = "in.parquet"\ndataset = "the clinic\'s, 2026"\n[output]\npath = "out.json"\n[ledger]\n'
        f'path = "{ledger}"\n[privacy]\n{keys(privacy)}\n' + "".join(f"[[query]]\n{keys(query)}{free}\n" for query in queries),
        encoding="utf-8",
    )
    assert run(["release", "job.toml"]) != 0
    line = re.search(r"dpcore (ledger create .*?) \((.*?)\)", capsys.readouterr().err)
    assert words in line[2]
    assert run(shlex.split(line[1])) == 0
    assert run(["release", "job.toml"]) == 0
    assert run(["ledger", "show", f"./{ledger}"]) == 0
    capsys.readouterr()
    assert run(shlex.split(line[1])) == REFUSED
    shown = re.search(r"dpcore (ledger show .*?) shows it", capsys.readouterr().err)
    assert run(shlex.split(shown[1])) == 0


def test_the_other_ledger_that_a_refusal_proposes_pays_for_the_job(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(clinic(50), tmp_path / "in.parquet")
    assert run(["ledger", "create", "study.ledger", "--epsilon", "4", "--relation", "add_remove"]) == 0
    Path("job.toml").write_text(
        'version = 1\n[input]\npath = "in.parquet"\n[output]\npath = "out.json"\n[ledger]\npath = "study.ledger"\n'
        "[privacy]\nmax_epsilon = 1.0\n"
        '[[query]]\nname = "all"\nkind = "count"\nepsilon = 1.0\n',
        encoding="utf-8",
    )
    capsys.readouterr()
    assert run(["release", "job.toml"]) == REFUSED
    line = re.search(r"dpcore (ledger create .*?) \(", capsys.readouterr().err)[1]
    assert run(shlex.split(line)) == 0
