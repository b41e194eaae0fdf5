"""What is loaded by `import dpcore` and by a command that only has to print its help; and that a signal waits while a command loads."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import dpcore

HEAVY = {"clarabel", "duckdb", "jinja2", "matplotlib", "pandas", "polars", "pyarrow", "pydantic", "rich", "scipy", "sqlite3"}
"""Packages that take long to load, or that only some work needs."""
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
    kinds = {name.rpartition(".")[2] for name in found["release release.toml"] if name.startswith("dpcore.query.kinds.")}
    assert kinds == {"base", "mean"}


def test_a_room_too_much_would_be_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pytest.importorskip("pydantic")
    found = loaded("import dpcore.query.kinds as kinds; dict(kinds.KINDS)")
    assert found > {f"dpcore.query.kinds.{name}" for name in ("base", "mean", "count", "synthetic", "top")}


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
