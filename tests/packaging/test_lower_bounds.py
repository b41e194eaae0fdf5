"""Old packages are refused in a sentence with the pip line, and what a job does not need it does without."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import re
import subprocess
import sys
import textwrap

import pytest

from dpcore import _extras
from support.lower_bounds import PYPROJECT, lower_bounds, project

PIP = _extras.install("batch", gap=_extras.BELOW)
EXTRAS = ("accounting", "batch", "minimax", "report", "test")
REQUIRED = re.compile(r"""([\w-]+)(?:\[[\w,-]+\])?\s*>=([\d.]+)[^;]*(?:;.*extra == ['"]([\w-]+)['"])?""")


def started(code: str, folder=None) -> tuple[str, str]:
    """What a program prints to each stream, with a folder before all others that packages are in."""
    code = textwrap.dedent(code)
    code = f"import sys\nsys.path.insert(0, {str(folder)!r})\n{code}" if folder is not None else code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout, done.stderr


# The bounds


def test_the_bounds_are_those_that_pip_knows():
    declared: dict[str, set[str]] = {}
    for line in importlib.metadata.requires("dpcore"):
        found = REQUIRED.match(line)
        if found and found[3] in {None, *EXTRAS}:
            declared.setdefault(found[1].replace("-", "_"), set()).add(found[2])
    assert {name: declared[name] for name in _extras.LOWEST} == {name: {bound} for name, bound in _extras.LOWEST.items()}


@pytest.mark.source_tree
def test_constraints_are_the_highest_of_the_lower_bounds():
    declared = {
        "dependencies": ["numpy>=1.26"],
        "optional-dependencies": {
            "one": ["dpcore[two,three]", "polars>=1.9"],
            "two": ["polars[x]>=1.20,<3", "pandas==2.2; sys_platform == 'linux'"],
            "three": ["polars>=1.3"],
            "loose": ["pandas"],
        },
    }
    assert lower_bounds(["one"], declared) == {"numpy": "1.26", "polars": "1.20", "pandas": "2.2"}
    with pytest.raises(ValueError, match="'pandas' has no lower bound"):
        lower_bounds(["loose"], declared)
    names = {name.replace("-", "_") for name in lower_bounds(["batch", "minimax", "accounting", "test"], project())}
    assert names >= {*_extras.LOWEST, "pytest", "hypothesis"}


# What messages say


def test_messages_name_a_command_that_works_from_a_clone():
    """No index has the package: what a message says must not fetch the package of a stranger who takes the name."""
    assert _extras.install("batch") == "in the folder of the clone, run pip install '.[batch]'"
    assert _extras.needs("plot needs", "report") == f"plot needs the extra `report`: {_extras.install('report')}"


@pytest.mark.source_tree
def test_only_one_function_says_how_an_extra_is_installed():
    for path in (PYPROJECT.parent / "src" / "dpcore").rglob("*.py"):
        found = re.findall(r"(?:pip )?install '?(?:dpcore|\.)\[.*", path.read_text("utf-8"))
        assert found == (["pip install '.[{extra}]'\""] if path.name == "_extras.py" else []), path


# Packages that are too old


def old(folder, name: str, version: str) -> None:
    """An old package, as pip leaves it."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (folder / f"{name}-{version}.dist-info").mkdir()


@pytest.mark.parametrize(("name", "version"), [("pyarrow", "17.0.0"), ("click", "8.0.4"), ("pydantic", "1.10.22"), ("rich", "12.6.0")])
def test_old_packages_are_refused_before_they_are_used(tmp_path, name, version):
    old(tmp_path, name, version)
    wanted = f"({name} {version} is too old, it must be {_extras.LOWEST[name]} or later); {PIP}\n"
    out, err = started("try:\n    import dpcore.batch\nexcept ImportError as error:\n    print(type(error).__name__, error)", tmp_path)
    assert out == f"ImportError dpcore.batch needs the extra `batch` {wanted}", err
    out, err = started("from dpcore import cli\nprint(cli.run(['release', 'job.toml']))", tmp_path)
    assert out == "2\n"
    assert err == f"dpcore: the command line needs the extra `batch` {wanted}"


def test_new_packages_are_taken(tmp_path):
    """Also one whose version is no number, and one of which an interrupted installation has left an older one behind."""
    pytest.importorskip("pydantic")
    out, err = started("import dpcore.batch; print('loaded')")
    assert out == "loaded\n", err
    for version in ("18.0.0rc1", "18", "180.1", "local"):
        (tmp_path / f"pyarrow-{version}.dist-info").mkdir()
    assert _extras._versions(str(tmp_path)) == {"pyarrow": "local"}
    assert not [version for version in ("18.0.0rc1", "18", "180.1", "local") if _extras.release(version) < _extras.release("18")]
    assert _extras.release("17.9.9") < _extras.release("18")
    assert _extras.release("1.20") == _extras.release("1.20.0")
    assert _extras.release("1.9") < _extras.release("1.20")


@pytest.fixture
def outdated(monkeypatch):
    """All packages of a folder are those of long ago; modules that would refuse to be loaded are there before."""
    for name in ("dpcore.accounting", "dpcore.accounting.dp_events", "dpcore._figures", "dpcore.pages.page", "dpcore.frames.sources"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    monkeypatch.setattr(_extras, "_versions", lambda folder: dict.fromkeys(_extras.LOWEST, "0.1"))


def sentence(name: str) -> str:
    bound = _extras.LOWEST[name]
    return re.escape(f"{name} 0.1 is too old, it must be {bound} or later: pip install '{name.replace('_', '-')}>={bound}'")


def test_the_core_refuses_old_packages(outdated):
    with pytest.raises(ImportError, match=sentence("numpy")):
        _extras.refuse_old("numpy", "scipy")
    with pytest.raises(ImportError, match=sentence("scipy")):
        _extras.refuse_old("scipy")


def test_plots_refuse_an_old_matplotlib(outdated, tmp_path):
    pytest.importorskip("matplotlib")
    from dpcore._figures import drawn_on

    with pytest.raises(ImportError, match=sentence("matplotlib")):
        drawn_on(tmp_path / "x.svg", lambda axes: None, (1.0, 1.0))


def test_reports_refuse_an_old_matplotlib(outdated, tmp_path):
    pytest.importorskip("jinja2")
    from dpcore.errors import JobError
    from dpcore.pages.page import Pages

    class Page(Pages):
        template = "frame"

        def content(self, subject):
            raise AssertionError

    with pytest.raises(JobError, match=sentence("jinja2")):
        Page(tmp_path, "x")


def test_accounting_refuses_an_old_package(outdated):
    pytest.importorskip("dp_accounting")
    from dpcore.accounting import Uses, pld

    with pytest.raises(ImportError, match=sentence("dp_accounting")):
        pld(Uses("laplace", uses=2, epsilon=0.1), sampling="poisson", rate=0.1, relation="add_remove")


def test_events_refuse_an_old_package(outdated):
    """Before 0.5 its accountant of loss distributions takes half the sensitivity of a Gaussian sum under the relation "replace"."""
    pytest.importorskip("dp_accounting")
    from dpcore import Privacy
    from dpcore.accounting import from_dp_event, to_dp_event

    for call in (lambda: to_dp_event(Privacy(1.0)), lambda: from_dp_event(object(), relation="replace")):
        with pytest.raises(ImportError, match=sentence("dp_accounting")):
            call()


def test_peers_refuse_an_old_package(monkeypatch):
    from dpcore.interop._peers import Peer

    peer = Peer(module="pytest", distribution="pytest", tested=("0",), extra="test", lowest="99.5")
    wanted = rf"pytest {re.escape(pytest.__version__)} is too old, it must be 99\.5 or later: pip install 'pytest>=99\.5'"
    with pytest.raises(ImportError, match=wanted):
        peer.require()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_tables_refuse_frames_of_old_packages(outdated, library):
    pytest.importorskip("pyarrow")
    frames = pytest.importorskip(library)
    from dpcore.errors import ParameterError
    from dpcore.frames.sources import source_of

    with pytest.raises(ParameterError, match=sentence(library)):
        source_of(frames.DataFrame({"x": [1, 2]}))


def test_the_incomplete_beta_function_is_accurate():
    """SciPy 1.11 is too old for it: its limits of probabilities from counts are wrong where counts are large."""
    special = pytest.importorskip("scipy.special")
    for n in (10**3, 10**6, 10**8):
        assert special.betainc(n, n, 0.5) == pytest.approx(0.5, rel=1e-7)  # a fair coin, as many heads as tails
        least = special.betaincinv(n, 1, 1e-10)  # n hits of n, of which the probability is p^n
        assert least**n == pytest.approx(1e-10, rel=1e-6)
        assert special.betaincc(n, n, 0.5) + special.betainc(n, n, 0.5) == pytest.approx(1.0, rel=1e-7)


# DuckDB

WITHOUT = """
import sys
sys.modules["duckdb"] = None
from dpcore.batch import estimate, make_plan, make_release_plan, parse_job, parse_release_job, privatize, release
from dpcore.errors import JobError
import pathlib, tempfile
place = pathlib.Path(tempfile.mkdtemp())
(place / "table.csv").write_text("who,x,g\\n" + "".join(f"{i % 7},{i},{'ab'[i % 2]}\\n" for i in range(50)))
def asked(**more):
    stage = {key: more.pop(key) for key in ("where", "derive") if key in more}
    query = {"name": "n", "kind": "mean", "column": "x", "lower": 0, "upper": 50, "epsilon": 1.0} | more
    job = {"version": 1, "input": {"path": str(place / "table.csv")}, "output": {"path": str(place / "out.json")},
           "privacy": {"max_epsilon": 9.0}, "query": [query], **stage}
    return release(make_release_plan(parse_release_job(job), overwrite=True))
"""


def test_jobs_without_expressions_need_no_database():
    """Neither a release, with groups or without, nor a privatisation and the estimates from it."""
    pytest.importorskip("pydantic")
    out, err = started(
        WITHOUT
        + """
asked()
asked(group_by="g", groups=["a", "b"])
column = {"name": "g", "mechanism": "kary", "epsilon": 2.0, "categories": ["a", "b"]}
job = parse_job({"version": 1, "input": {"path": str(place / "table.csv")}, "output": {"path": str(place / "private.parquet")},
                 "privacy": {"max_epsilon": 2.0}, "column": [column]})
privatize(make_plan(job))
estimate(place / "private.parquet")
print("done")
"""
    )
    assert out == "done\n", err


@pytest.mark.parametrize(
    "more", ["where='x > 3'", "derive=[{'name': 'y', 'sql': 'x + 1'}], column='y'"], ids=["a condition", "a derived column"]
)
def test_expressions_say_what_they_need(more):
    pytest.importorskip("pydantic")
    out, err = started(WITHOUT + f"\ntry:\n    asked({more})\nexcept JobError as error:\n    print(error)")
    assert out.endswith(f"needs the extra `batch` (not installed: duckdb); {PIP}\n"), err


def test_an_old_database_is_refused_where_an_expression_is(tmp_path):
    pytest.importorskip("pydantic")
    old(tmp_path, "duckdb", "1.4.4")
    code = WITHOUT.replace('sys.modules["duckdb"] = None', "")
    out, err = started(code + "\nasked()\ntry:\n    asked(where='x > 3')\nexcept JobError as error:\n    print(error)", tmp_path)
    assert out.endswith(f"(duckdb 1.4.4 is too old, it must be 2.0 or later); {PIP}\n"), err


class Relation:
    """What is known of a relation before it is read."""

    columns = ("x",)


def test_relations_need_no_new_database(monkeypatch):
    """They are read from 1.0 on; what is older is refused."""
    from dpcore._relations import check_relation
    from dpcore.errors import ParameterError

    pytest.importorskip("duckdb")
    monkeypatch.setattr(_extras, "_versions", lambda folder: {"duckdb": "1.0.0"})
    check_relation(Relation, "frame")
    monkeypatch.setattr(_extras, "_versions", lambda folder: {"duckdb": "0.10.3"})
    words = "frame cannot be read: duckdb 0.10.3 is too old, it must be 1.0 or later: pip install 'duckdb>=1.0'"
    with pytest.raises(ParameterError, match=re.escape(words)):
        check_relation(Relation, "frame")
