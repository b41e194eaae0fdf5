"""The methods of tables come from the kinds of queries: each key is an argument, and a new kind costs frames nothing."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import pydoc
import re
import rlcompleter
import subprocess
import sys
import threading

import pytest

pytest.importorskip("pydantic")
pytest.importorskip("pyarrow")

import pyarrow as pa
from pydantic.fields import FieldInfo

from dpcore import ParameterError, PrivateTable
from dpcore.frames import GroupedTable, TableBatch
from dpcore.frames._methods import Methods
from dpcore.frames.asking import Asks
from dpcore.frames.calls import BY_COLUMN, WORDS
from dpcore.frames.signatures import Described
from dpcore.query.kinds import FILES, KINDS, METHODS, QUERY_SECTIONS, kind_at

TABLES = (PrivateTable, GroupedTable, TableBatch)
ELSEWHERE = {"kind", "group_by", "groups", "consistent", "where"}
"""Keys of queries that are no arguments: tables have methods of their own for them."""
FIELDS = "__pydantic_fields__" if hasattr(QUERY_SECTIONS["mean"], "__pydantic_fields__") else "model_fields"
"""Where pydantic keeps the fields of a model; its older versions keep them where they show them."""


@pytest.fixture
def table():
    return PrivateTable(pa.table({"ward": ["a", "b", "a"], "cost": [1.0, 2.0, 3.0]}))


def parameters(method):
    return dict(list(inspect.signature(method).parameters.items())[1:])


# The registry


def test_the_registry_has_the_methods_that_kinds_have():
    """It repeats their names, so that no file of a kind is imported before it is needed."""
    found = {path: kind_at(path) for path in FILES}
    assert {path: list(words) for path, words in FILES.items()} == {path: list(kind.names) for path, kind in found.items()}
    assert {path: [word for word in words.values() if word is not None] for path, words in FILES.items()} == {
        path: [method.name for method in kind.methods] for path, kind in found.items()
    }
    assert {kind_at(path) for path in FILES} == set(KINDS.values())


def test_a_kind_without_a_method_is_one_of_three():
    """The keys of `groups` are named by `group_by`; made-up tables are files; a running total goes on from run to run of a job."""
    assert {word for word, kind in KINDS.items() if not kind.methods} == {"groups", "running_total", "synthetic"}


@pytest.mark.parametrize("method", METHODS)
def test_methods_have_the_keys_of_their_kind(method):
    """Every key of a `[[query]]` is an argument, and no argument is anything else; what is left out has the default of the job."""
    described = Described.of(method)
    fields = QUERY_SECTIONS[described.kind].model_fields
    found = parameters(getattr(PrivateTable, method))
    assert set(found) == set(fields) - ELSEWHERE
    for name, parameter in found.items():
        required = parameter.default is inspect.Parameter.empty
        instead = name in {"lower", "upper", "grid"} and "bounds" in fields  # which finds them
        assert required == (fields[name].is_required() and name != "name" and not instead), name
        assert required or parameter.default is None
        positional = name in {"column", "columns"}
        assert parameter.kind == (parameter.POSITIONAL_OR_KEYWORD if positional else parameter.KEYWORD_ONLY)


@pytest.mark.parametrize("method", METHODS)
def test_docstrings_have_every_argument_once_and_in_order(method):
    text = inspect.getdoc(getattr(PrivateTable, method))
    body, _, returned = text.partition("\n\nReturns\n-------\nTableResult\n    ")
    heads = re.findall(r"^(\w[\w, ]*) : (.+)$", body.partition("----------\n")[2], re.MULTILINE)
    assert [name for head, _ in heads for name in head.split(", ")] == list(parameters(getattr(PrivateTable, method)))
    for head, words in heads:
        for name in head.split(", "):
            required = parameters(getattr(PrivateTable, method))[name].default is inspect.Parameter.empty
            assert words.endswith(", optional") is not required
    assert body[0].isupper()
    assert body.partition("\n\n")[0].endswith(".")
    assert returned.endswith(".")
    assert max(map(len, text.splitlines())) <= 132
    assert "Annotated" not in text


def test_a_key_without_a_meaning_is_refused(monkeypatch):
    fields = dict(QUERY_SECTIONS["mean"].model_fields)
    fields["lower"] = copy.copy(fields["lower"])
    fields["lower"].description = None
    monkeypatch.setattr(QUERY_SECTIONS["mean"], FIELDS, fields)
    with pytest.raises(TypeError, match=r"MeanQuery\.lower has no description"):
        Described.of("mean")


def test_a_key_of_another_type_needs_words_for_it(monkeypatch):
    fields = dict(QUERY_SECTIONS["mean"].model_fields)
    fields["lower"] = FieldInfo(annotation=tuple[float, ...], description="Ends.")
    monkeypatch.setattr(QUERY_SECTIONS["mean"], FIELDS, fields)
    with pytest.raises(TypeError, match="annotate the field with InPython"):
        Described.of("mean")


NEWCOMER = """
import sys, types
import dpcore.query.request
from dpcore.query import kinds
from dpcore.query.kinds.mean import Mean, MeanQuery
from dpcore.query.methods import Method

class MiddleQuery(MeanQuery):
    pass

class Middle(Mean):
    names, fields = ("middle",), (MiddleQuery,)
    methods = (Method("central", "Find the middle.", "It.", ("lower", "upper", "bounds", "bounds_epsilon", "delta", "missing")),)

sys.modules[f"{kinds.__name__}.middle"] = types.SimpleNamespace(Middle=Middle)
kinds.FILES["middle.Middle"] = {"middle": "central"}
kinds.METHODS["central"] = "middle.Middle"

import inspect, json
import pyarrow as pa
from dpcore import PrivateTable

table = PrivateTable(pa.table({"x": [1.0]}))
said = []
for ask in (lambda: table.middle, lambda: table.plan("centre"), lambda: table.central("x", eps=1), lambda: table.central("x", epsilon=1.0)):
    try:
        ask()
    except Exception as error:
        said.append(f"{type(error).__name__}: {error}")
print(json.dumps(["central" in dir(PrivateTable), str(inspect.signature(PrivateTable.central)), PrivateTable.central.__doc__[:16], *said]))
"""


def test_frames_serve_a_kind_that_they_have_never_heard_of():
    """Its keys are those of a mean, which say that they are no others."""
    done = subprocess.run([sys.executable, "-c", NEWCOMER], capture_output=True, text=True, check=True)
    listed, signature, first, attribute, plan, call, query = json.loads(done.stdout)
    assert listed
    assert signature == str(inspect.signature(PrivateTable.mean))
    assert first == "Find the middle."
    assert attribute.endswith("has no attribute 'middle'; use central")
    assert "'central', got 'centre'" in plan
    assert call.startswith("ParameterTypeError: central has no argument 'eps'. Did you mean 'epsilon'?")
    assert query.startswith("JobError")
    assert "'middle'" in query


# Python's own tools


def test_signatures_are_not_made_before_they_are_looked_up():
    program = f"""
import json
from dpcore.frames._methods import Methods
from dpcore import PrivateTable
dir(PrivateTable)
kinds = [type(vars(Methods)[name]).__name__ for name in {list(METHODS)}]
PrivateTable.mean
print(json.dumps([*sorted(set(kinds)), type(vars(Methods)["mean"]).__name__]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["Asks", "function"]


ALONE = """
import json, os, sys, types
import dpcore

for name in ("dpcore.batch", "dpcore.batch.release"):  # which import all that their public functions need
    package = types.ModuleType(name)
    package.__path__ = [os.path.join(os.path.dirname(dpcore.__file__), *name.split(".")[1:])]
    sys.modules[name] = package
from dpcore.frames import PrivateTable
dir(PrivateTable)
print(json.dumps(sorted(sys.modules)))
"""


def test_frames_themselves_import_no_kind():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert "dpcore.query.kinds" in found
    assert [name for name in found if name.startswith("dpcore.query.kinds.")] == []
    assert not {"pydantic", "duckdb", "scipy"} & set(found)


@pytest.mark.parametrize("kind", TABLES)
def test_methods_are_listed_and_described(kind):
    assert set(METHODS) <= set(dir(kind))
    described = pydoc.plain(pydoc.render_doc(kind))
    joined = re.sub(r"[\s|]", "", described)  # from Python 3.13 on each parameter has a line
    for name in METHODS:
        assert f"{name}(self,column" in joined
    assert "The divisor is n − ddof." in described
    completer = rlcompleter.Completer({"table": kind})
    assert completer.complete("table.media", 0) == "table.median("


def test_a_method_is_a_function_of_the_class():
    function = PrivateTable.mean
    assert inspect.isfunction(function)
    assert function is GroupedTable.mean is Methods.mean
    assert (function.__name__, function.__qualname__, function.__module__) == ("mean", "Methods.mean", "dpcore.frames._methods")
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    assert list(function.__annotations__) == [*parameters(function), "return"]


def test_a_method_of_a_table_is_bound_to_it(table):
    method = table.group_by("ward", groups=["a", "b"]).count
    assert inspect.ismethod(method)
    assert next(iter(inspect.signature(method).parameters)) == "column"
    assert len(method(epsilon=1.0).value) == 2


def test_threads_get_the_same_function():
    """Each of them may be the first to look it up."""
    for _ in range(20):
        kind = type("Some", (), {"mean": Asks()})
        gate, found = threading.Barrier(8), []

        def look(kind=kind, gate=gate, found=found):
            gate.wait()
            found.append(kind.mean)

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len({id(each) for each in (*found, kind.mean)}) == 1


# Words for what there is


def test_words_explain_what_there_is_not():
    """A word of another library that has become a method needs no advice."""
    assert not set(WORDS) & set(dir(PrivateTable))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("top_s", "'PrivateTable' object has no attribute 'top_s'; use top"),
        (
            "synthetic",
            "'PrivateTable' object has no attribute 'synthetic'; made-up rows are drawn by a job, kind = \"synthetic\" of dpcore release",
        ),
        (
            "groups",
            f"'PrivateTable' object has no attribute 'groups'; {BY_COLUMN.format('groups')}, and a query takes a column by its name",
        ),
        ("modus", f"'PrivateTable' object has no attribute 'modus'; {BY_COLUMN.format('modus')}, and a query takes a column by its name"),
    ],
)
def test_words_of_jobs_lead_to_methods(table, name, said):
    with pytest.raises(AttributeError) as found:
        getattr(table, name)
    assert str(found.value) == said


def test_a_method_can_be_planned_by_its_name(table):
    plan = table.plan("top", "ward", s=1, candidates=["a", "b"], epsilon=1.0)
    assert plan.document["queries"][0]["kind"] == "top_s"
    with pytest.raises(ParameterError, match=r"kind must be one of 'count', .*, got 'top_s'"):
        table.plan("top_s", "ward", s=1, candidates=["a", "b"], epsilon=1.0)
