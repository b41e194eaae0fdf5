"""What `import dpcore`, a first question and each command load, one that only has to print its help above all; a signal waits meanwhile."""

from __future__ import annotations

import contextlib
import gc
import json
import subprocess
import sys

import numpy as np
import pytest

import dpcore
from dpcore._lazy import uncollected

HEAVY = {"clarabel", "duckdb", "jinja2", "matplotlib", "pandas", "polars", "pyarrow", "pydantic", "rich", "scipy", "sqlite3"}
"""Packages that take long to load, or that only some work needs."""
LATE = ("numpy.random",) if int(np.__version__.partition(".")[0]) > 1 else ()
"""Parts of packages that only some work needs; NumPy 1 loads all of its own."""
NUMPY = {"numpy", "dpcore._backend", "dpcore._kernels"}
TOLD = "import json, sys\n{}\nprint(json.dumps(sorted(sys.modules)), file=sys.__stderr__)"


def loaded(program: str, *arguments: str) -> set[str]:
    """Modules that a program has loaded in a process of its own."""
    done = subprocess.run([sys.executable, "-c", TOLD.format(program), *arguments], capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr.splitlines()[-1]))


def commands() -> list[tuple[str, ...]]:
    """The words of every command, groups included."""
    click = pytest.importorskip("click")
    pytest.importorskip("pydantic")
    from dpcore.cli import command_group

    found: list[tuple[str, ...]] = []
    todo = [((), command_group())]
    while todo:
        words, command = todo.pop()
        found.append(words)
        if isinstance(command, click.Group):
            todo += [((*words, name), command.commands[name]) for name in command.commands]
    return found


# The package


def test_the_package_loads_neither_numpy_nor_kernels():
    assert not loaded("import dpcore") & (HEAVY | NUMPY | {"html", "dpcore.accounting", "dpcore.local"})


@pytest.mark.some(5)
@pytest.mark.parametrize("name", ["accounting", "inference", "local", "mechanisms", "noise", "selection", "sums"])
def test_packages_that_draw_load_numpy_at_most(name):
    found = loaded(f"from dpcore import {name}")
    assert f"dpcore.{name}" in found
    assert not found & (HEAVY | {"html"})


@pytest.mark.some(3)
@pytest.mark.parametrize("name", [*dpcore.__all__, "errors", "privacy", "rng"])
def test_every_public_name_can_be_the_first(name):
    program = (
        f"import dpcore; found = dpcore.{name}; from dpcore import {name} as again; assert found is again is getattr(dpcore, {name!r})"
    )
    assert "dpcore" in loaded(program)


def test_names_that_do_not_exist_are_refused():
    with pytest.raises(AttributeError, match="module 'dpcore' has no attribute 'laplace'"):
        _ = dpcore.laplace
    with pytest.raises(ImportError, match="laplace"):
        from dpcore import laplace  # noqa: F401
    assert dir(dpcore) == sorted(dpcore.__all__)


def test_a_star_imports_every_public_name():
    names: dict[str, object] = {}
    exec("from dpcore import *", names)
    assert set(dpcore.__all__) <= set(names)


# Commands


def test_help_loads_what_it_prints_and_no_more():
    """All help texts in one process: what none of them loads, no single one loads."""
    program = f"""
from dpcore import cli
for words in {commands()!r}:
    assert cli.run([*words, "--help"]) == 0
"""
    found = loaded(program)
    assert "click" in found
    assert not found & (HEAVY | NUMPY | {"dpcore.batch", "dpcore.reproduce"})


def test_info_loads_the_kernels_and_no_more():
    commands()
    found = loaded("from dpcore import cli; assert cli.run(['info']) == 0")
    assert "dpcore._kernels._dispatch" in found
    assert not found & (HEAVY | {"dpcore.batch", "dpcore.reproduce", "dpcore.local"})


def test_what_is_loaded_too_early_would_be_found():
    commands()
    assert loaded("import dpcore.jobs.commands.privatize") >= {"numpy", "dpcore._backend", "pyarrow", "pydantic", "rich"}


def test_completion_loads_no_more_than_help():
    commands()
    program = """
import os
os.environ |= {"_DPCORE_COMPLETE": "bash_complete", "COMP_WORDS": "dpcore ledger ", "COMP_CWORD": "2"}
from dpcore import cli
assert cli.run([]) == 0
"""
    assert not loaded(program) & (HEAVY | NUMPY)


JOB = """
version = 1
input.path = "table.csv"
output.path = "out.{ending}"
privacy.max_epsilon = 1
[[{table}]]
name = "x"
{kind}
epsilon = 1
lower = 0
upper = 1
"""
ALL_JOBS = {"accounting", "errors", "jobs", "mechanisms", "noise", "pages", "privacy", "rng", "tables"}
RELEASE, PRIVATIZE = ALL_JOBS | {"query", "selection", "sums"}, ALL_JOBS | {"local"}
ROOMS = {
    "release release.toml --dry-run": RELEASE,
    "release release.toml": RELEASE,
    "privatize privatize.toml --dry-run": PRIVATIZE,
    "privatize privatize.toml": PRIVATIZE,
    "estimate out.parquet": PRIVATIZE,
    "ledger create x.ledger --epsilon 1": ALL_JOBS - {"mechanisms", "noise"},
    "ledger show x.ledger": ALL_JOBS - {"mechanisms", "noise"},
    "init out.parquet": ALL_JOBS - {"accounting", "mechanisms", "noise", "privacy"},
}
"""The packages that a command may load; those whose names begin with _ stand below them all."""
RUN = "import sys; from dpcore import cli; sys.argv[0] = 'dpcore'\ntry: cli.main()\nexcept SystemExit as end: assert not end.code"


def test_a_command_loads_its_own_rooms_only(tmp_path, monkeypatch):
    """One process for each, as the command is: no other kind of query than that asked, no database where nothing needs one, no pandas."""
    pytest.importorskip("pydantic")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("x\n0.5\n0.25\n")
    (tmp_path / "release.toml").write_text(JOB.format(ending="json", table="query", kind='kind = "mean"\ncolumn = "x"'))
    (tmp_path / "privatize.toml").write_text(JOB.format(ending="parquet", table="column", kind='mechanism = "laplace"'))
    found = {line: loaded(RUN, *line.split()) for line in ROOMS}
    for line, modules in found.items():
        rooms = {name.split(".")[1] for name in modules if name.startswith("dpcore.")}
        assert {room for room in rooms if not room.startswith("_")} - {"cli"} <= ROOMS[line], line
        assert not modules & {"duckdb", "pandas", "matplotlib", "jinja2", "clarabel", "polars"}, line
    assert len(own(found["release release.toml"])) <= RELEASE_MODULES
    assert within(counts(RUN, "release", "release.toml", "--overwrite"))
    kinds = {name.rpartition(".")[2] for name in found["release release.toml"] if name.startswith("dpcore.query.kinds.")}
    assert kinds == {"base", "mean"}


def test_a_room_too_much_would_be_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pydantic")
    found = loaded("import dpcore.query.kinds as kinds; dict(kinds.KINDS)")
    assert found > {f"dpcore.query.kinds.{name}" for name in ("base", "mean", "count", "synthetic", "top")}


# The first question

QUESTION = """
import pyarrow as pa
numbers = pa.Int64Array.from_buffers(pa.int64(), 1000, [None, pa.py_buffer(bytes(8000))])
from dpcore import PrivateTable
PrivateTable(pa.RecordBatch.from_arrays([numbers], ["x"])).mean("x", lower=0, upper=1, epsilon=1.0)
"""
"""A pyarrow table that is made without pandas, which pyarrow itself would load."""
COUNTED = """
{}
import json, sys
from dpcore.tables.fields import Section

def models(of):
    return [each for sub in of.__subclasses__() for each in (sub, *models(sub))]

named = [each for name, module in list(sys.modules.items()) if name.startswith("dpcore.") for each in vars(module).values()]
classes = {{each for each in named if isinstance(each, type) and "__dataclass_fields__" in vars(each)}}
written = [each for each in classes if type(vars(each)["__init__"]).__name__ == "function"]
built = [each for each in models(Section) if each.__pydantic_complete__]
print(json.dumps([len(models(Section)), len(built), len(classes), len(written)]), file=sys.__stderr__)
"""


QUESTION_MODULES, RELEASE_MODULES = 145, 190
MODELS, BUILT, CLASSES, WRITTEN = 30, 6, 110, 60
"""What a question or a release may load, with room for a few; a room too much has more."""


def own(modules: set[str]) -> set[str]:
    """The modules of the package, by their names in it."""
    return {name.removeprefix("dpcore.") for name in modules if name.startswith("dpcore.")}


def counts(program: str, *arguments: str) -> list[int]:
    """Models of jobs, those whose validators are built, dataclasses, and those whose `__init__` is written, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", COUNTED.format(program), *arguments], capture_output=True, text=True, check=True)
    return json.loads(done.stderr.splitlines()[-1])


def within(found: list[int]) -> bool:
    return all(0 < each <= most for each, most in zip(found, (MODELS, BUILT, CLASSES, WRITTEN), strict=True))


def test_a_plain_question_loads_what_it_needs():
    """Nothing of files, of other kinds, of other frames, of ledgers or of pages, and no library that it can do without."""
    pytest.importorskip("pydantic")
    pytest.importorskip("pyarrow")
    found = loaded(QUESTION)
    assert not found & ((HEAVY - {"pyarrow", "pydantic"}) | {"click", "difflib", *LATE})
    assert "glob" not in found or sys.version_info >= (3, 13), "of which pathlib loads it"
    modules = own(found)
    assert len(modules) <= QUESTION_MODULES, sorted(modules)
    assert {name for name in modules if name.startswith("query.kinds.")} == {"query.kinds.base", "query.kinds.mean"}
    rooms = (
        "accounting.ledger",
        "frames.pandas_source",
        "local",
        "tables.discovery",
        "tables.output.publication",
        "tables.sources",
        "tables.units",
    )
    assert not [name for name in modules if name.startswith(rooms)]


def test_a_plain_question_builds_what_it_needs():
    pytest.importorskip("pydantic")
    pytest.importorskip("pyarrow")
    assert within(counts(QUESTION))


def test_what_is_built_too_early_would_be_found():
    pytest.importorskip("pydantic")
    pytest.importorskip("pyarrow")
    every_kind = f"{QUESTION}\nimport dpcore.query.kinds as kinds\nfor each in dict(kinds.QUERY_SECTIONS).values(): each.model_rebuild()"
    models, built, *_ = counts(every_kind)
    assert models > MODELS
    assert built > BUILT


def test_a_table_that_is_not_asked_loads_no_engine():
    pytest.importorskip("pydantic")
    pytest.importorskip("pyarrow")
    modules = own(loaded(QUESTION.partition(".mean")[0]))
    assert "frames.session" in modules
    assert not [name for name in modules if name.startswith(("mechanisms", "query.plan", "query.request", "query.run"))]


def test_the_collector_is_left_as_it_was():
    pytest.importorskip("pydantic")
    pytest.importorskip("pyarrow")
    for before in ("enable", "disable"):
        loaded(f"import gc\ngc.{before}()\n{QUESTION}\nassert gc.isenabled() is {before == 'enable'}")
    with contextlib.suppress(ZeroDivisionError), uncollected():
        assert not gc.isenabled()
        _ = 1 / 0
    assert gc.isenabled()


SIGNALLED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGTERM)

sys.meta_path.insert(0, Finder())
from dpcore import cli
print(cli.run(sys.argv[3:]), sys.argv[1] in sys.modules, sys.argv[2] in sys.modules)
"""
LOADING = {
    "info": ("numpy", "dpcore._backend", "info"),
    "privatize": ("pyarrow.lib", "dpcore.jobs.commands.privatize", "privatize", "job.toml"),
    "estimate": ("pyarrow.lib", "dpcore.jobs.commands.estimate", "estimate", "table.parquet"),
    "release": ("pyarrow.lib", "dpcore.jobs.commands.release", "release", "job.toml"),
    "ledger": ("pyarrow.lib", "dpcore.jobs.commands.ledger", "ledger", "show", "x.ledger"),
    "reproduce": ("numpy", "dpcore.reproduce.command", "reproduce", "all"),
}


@pytest.mark.some(2)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows delivers no signals to a process by number")
@pytest.mark.parametrize("name", LOADING)
def test_a_signal_waits_until_a_command_is_loaded(name, tmp_path):
    """A half-loaded extension may abort the process."""
    commands()
    done = subprocess.run([sys.executable, "-c", SIGNALLED, *LOADING[name]], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["143", "True", "True"], done.stderr
    assert "terminated; nothing was left behind" in done.stderr
