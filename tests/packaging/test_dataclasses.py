"""Dataclasses that are quick to define are those of the standard library: the same source, made by both."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
import sys
import types
import typing
from pathlib import Path

import pytest

import dpcore
from dpcore import _dataclasses

SOURCE = """
from __future__ import annotations
import threading
from dataclasses import KW_ONLY, field
from typing import ClassVar

@dataclass(frozen=True, slots=True)
class Point:
    "Two numbers."
    x: int
    y: float = 0.5
    KIND: ClassVar[str] = "point"

    @property
    def both(self):
        return self.x, self.y

@dataclass(frozen=True, slots=True)
class Wide(Point):
    names: list[str] = field(default_factory=list)
    hidden: int = field(default=7, repr=False, compare=False)
    made: int = field(init=False, repr=False, compare=False)
    counted: int = field(init=False, default=3)
    fresh: dict[str, int] = field(init=False, default_factory=dict, compare=False)

    def __post_init__(self):
        object.__setattr__(self, "made", self.x + 1)
        if self.x < 0:
            raise ValueError("x is negative")

@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    a: int
    b: int = 2

@dataclass(frozen=True, slots=True)
class Mixed:
    a: int
    _: KW_ONLY
    b: int
    c: int = 5

@dataclass(frozen=True, slots=True)
class Late(Mixed):
    d: int = field(default=1, kw_only=True)
    e: tuple[int, ...] = ()

@dataclass(frozen=True, slots=True, eq=False)
class Identical:
    a: int

@dataclass(frozen=True, slots=True, order=True)
class Ordered:
    a: int
    b: str = ""

@dataclass(frozen=True, slots=True, repr=False)
class Silent:
    a: int

    def __repr__(self):
        return "said"

@dataclass(frozen=True)
class Open:
    a: int
    b: list[int] = field(default_factory=list)
    c: int = 4

@dataclass(slots=True)
class Changing:
    a: int
    b: list[int] = field(default_factory=list)

@dataclass
class Free:
    a: int = 1

@dataclass(frozen=True, slots=True)
class Own:
    a: int

    def __init__(self, a):
        object.__setattr__(self, "a", 2 * a)

    def __eq__(self, other):
        return True

@dataclass(frozen=True, slots=True)
class Hashed:
    a: int

    def __hash__(self):
        return 5

@dataclass(frozen=True, slots=True)
class Nothing:
    pass

@dataclass(frozen=True, slots=True)
class Kept:
    a: int

    def __getstate__(self):
        return [self.a]

    def __setstate__(self, state):
        object.__setattr__(self, "a", state[0] + 1)
"""
CALLS = {
    "Point": [(1,), (1, 2.0)],
    "Wide": [(1,), (1, 2.0, ["a"]), (1, 2.0, ["a"], 8)],
    "Named": [],
    "Mixed": [],
    "Late": [],
    "Identical": [(1,)],
    "Ordered": [(1, "a"), (1, "b"), (2, "")],
    "Silent": [(1,)],
    "Open": [(1,), (1, [2]), (1, [2], 3)],
    "Changing": [(1,), (1, [2])],
    "Free": [(), (3,)],
    "Own": [(1,), (2,)],
    "Hashed": [(1,)],
    "Nothing": [()],
    "Kept": [(1,)],
}
KEYWORDS = {"Named": [{"a": 1}, {"a": 1, "b": 3}], "Mixed": [{"a": 1, "b": 2}], "Late": [{"a": 1, "b": 2, "d": 3, "e": (4,)}]}
WRONG = [((), {}), ((1, 2, 3, 4, 5, 6, 7), {}), ((), {"unknown": 1}), ((1,), {"a": 2})]


def made_by(decorator, name):
    module = types.ModuleType(name)
    module.dataclass = decorator
    sys.modules[name] = module
    exec(SOURCE, vars(module))
    return module


OURS, THEIRS = made_by(_dataclasses.dataclass, "classes_of_ours"), made_by(dataclasses.dataclass, "classes_of_the_library")


def outcome(function, *arguments):
    """What a call gives, or the error that it raises, without the name of the module."""
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error).replace(OURS.__name__, THEIRS.__name__)


def pairs(name):
    calls = [*((each, {}) for each in CALLS[name]), *(((), each) for each in KEYWORDS.get(name, []))]
    return [(getattr(OURS, name)(*given, **named), getattr(THEIRS, name)(*given, **named)) for given, named in calls]


@pytest.mark.parametrize("name", CALLS)
def test_a_class_is_that_of_the_library(name):
    ours, theirs = getattr(OURS, name), getattr(THEIRS, name)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert typing.get_type_hints(ours.__init__) == typing.get_type_hints(theirs.__init__)
    assert ours.__init__.__qualname__ == theirs.__init__.__qualname__
    assert ours.__match_args__ == theirs.__match_args__
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(theirs)]
    for given, named in WRONG:
        assert outcome(lambda: ours(*given, **named) and None) == outcome(lambda: theirs(*given, **named) and None)  # noqa: B023


@pytest.mark.parametrize("name", CALLS)
def test_objects_are_those_of_the_library(name):
    for ours, theirs in pairs(name):
        if name != "Identical":
            assert repr(ours) == repr(theirs)
            assert outcome(hash, ours) == outcome(hash, theirs)
        assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
        for each in (ours, theirs):
            for again in (copy.copy(each), copy.deepcopy(each), pickle.loads(pickle.dumps(each)), dataclasses.replace(each)):
                assert type(again) is type(each)
                assert (again == each) == (name != "Identical" and (name != "Kept" or again.a == each.a))
        for attribute in ("a", "x", "unknown"):
            assert outcome(setattr, ours, attribute, 9) == outcome(setattr, theirs, attribute, 9) or "super" in str(
                outcome(setattr, theirs, attribute, 9)
            )


@pytest.mark.parametrize("name", CALLS)
def test_comparisons_are_those_of_the_library(name):
    found = pairs(name)
    for one in found:
        for other in found:
            for compare in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
                ours, theirs = (outcome(getattr(one[side], compare), other[side]) for side in (0, 1))
                assert ours == theirs, (compare, one, other)
    for one, _ in found:
        assert name == "Own" or (one != 1 and one.__eq__(1) is NotImplemented)


def test_frozen_fields_are_refused():
    for given in (OURS.Point(1), OURS.Wide(1), OURS.Open(1)):
        for change in (lambda each: setattr(each, dataclasses.fields(each)[0].name, 2), lambda each: delattr(each, "unknown")):
            with pytest.raises(dataclasses.FrozenInstanceError):
                change(given)
    with pytest.raises(ValueError, match="x is negative"):
        OURS.Wide(-1)
    with pytest.raises(ValueError, match="x is negative"):
        dataclasses.replace(OURS.Wide(1), x=-1)


def test_defaults_are_made_anew():
    assert OURS.Wide(1).names is not OURS.Wide(1).names
    match OURS.Point(3, 4.0):
        case OURS.Point(x, y):
            assert (x, y) == (3, 4.0)


def test_init_is_written_at_its_first_call():
    module = made_by(_dataclasses.dataclass, "classes_that_nothing_used")
    assert isinstance(vars(module.Point)["__init__"], _dataclasses._Unwritten)
    module.Point(1)
    assert inspect.isfunction(vars(module.Point)["__init__"])
    assert isinstance(vars(module.Point)["__repr__"], _dataclasses._Unwritten)
    module.Late(1, b=2)
    assert isinstance(vars(module.Mixed)["__init__"], _dataclasses._Unwritten)


# The package


def modules():
    return [
        each.name
        for each in pkgutil.walk_packages(dpcore.__path__, "dpcore.")
        if "._kernels" not in each.name and "__main__" not in each.name
    ]


def classes():
    """Every dataclass of the package whose module can be imported here."""
    found = {}
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        found |= {(each.__module__, each.__qualname__): each for each in vars(module).values() if isinstance(each, type)}
    return [each for (module, _), each in sorted(found.items()) if module.startswith("dpcore.") and "__dataclass_fields__" in vars(each)]


@pytest.mark.long
def test_every_class_has_the_signature_that_the_library_would_write():
    """A twin without methods, of the fields of the class: what a parameter that the writer of `__init__` forgets would change."""
    compared = 0
    for each in classes():
        fields = dataclasses.fields(each)
        said = {field.name: _again(field) for field in fields}
        plain = {"__annotations__": {field.name: field.type for field in fields}, "__module__": each.__module__, "__doc__": "", **said}
        twin = dataclasses.dataclass(frozen=True)(type(each.__name__, (), plain))
        if each.__init__.__code__.co_filename != "<string>":
            continue  # one of its own
        assert str(inspect.signature(each)) == str(inspect.signature(twin)), each
        compared += 1
    assert compared > 200


def _again(field):
    given = {} if field.default is dataclasses.MISSING else {"default": field.default}
    given |= {} if field.default_factory is dataclasses.MISSING else {"default_factory": field.default_factory}
    return dataclasses.field(init=field.init, kw_only=field.kw_only, **given)


def test_no_module_takes_the_slow_one():
    """Nor names `InitVar`, which the quick one does not know."""
    slow = re.compile(r"^\s*from dataclasses import .*\b(dataclass|InitVar)\b|^\s*import dataclasses\b", re.MULTILINE)
    for path in Path(dpcore.__file__).parent.rglob("*.py"):
        assert path.name == "_dataclasses.py" or slow.search(path.read_text(encoding="utf-8")) is None, path
