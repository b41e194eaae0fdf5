"""Dataclasses that are quick to define: each method is written when it is first needed.

The standard library writes and compiles up to seven methods for each class, in half a millisecond: a hundred classes take as long to define
as NumPy takes to load. It still finds the fields and makes the slots here, which is a tenth of that.
"""

from __future__ import annotations

import operator
import reprlib
import sys
from dataclasses import MISSING, FrozenInstanceError, fields
from dataclasses import dataclass as standard
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field
    from dataclasses import dataclass as dataclass  # noqa: PLC0414
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        repr: bool = True,  # noqa: A002
        eq: bool = True,
        order: bool = False,
        kw_only: bool = False,
    ) -> Any:
        """Make a class as `dataclasses.dataclass` does with these arguments, except that `__dataclass_params__` is not told of methods.

        Fields are those of the standard library, `InitVar` excepted.
        """

        def made(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # The standard library would write a signature there.
            is_own = "__init__" in vars(cls)
            if not is_own:
                cls.__init__ = object.__init__  # From Python 3.14 on the standard library looks up an inherited one, which would write it.
            cls = standard(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            if not is_own:
                cls.__init__ = _Unwritten(cls, "__init__", _init)
            methods: dict[str, Any] = {}
            if repr:
                methods["__repr__"] = _repr
            if eq:
                methods["__eq__"] = _equal
                if vars(cls).get("__hash__") is None:
                    cls.__hash__ = _Unwritten(cls, "__hash__", _hash) if frozen else None
            if order:
                methods |= {f"__{compare.__name__}__": write for compare, write in _ORDER.items()}
            for name, write in methods.items():
                _add(cls, name, _Unwritten(cls, name, write))
            if frozen:
                _add(cls, "__setattr__", _refuse_assignment)
                _add(cls, "__delattr__", _refuse_deletion)
            if frozen and slots:
                _add(cls, "__getstate__", _state)
                _add(cls, "__setstate__", _set_state)
            return cls

        return made if cls is None else made(cls)


def _add(cls: type, name: str, method: object) -> None:
    """Add a method that the class does not define itself."""
    if name not in vars(cls):
        setattr(cls, name, method)


class _Unwritten:
    """A method of a class until it is first looked up."""

    __slots__ = ("cls", "name", "write")

    def __init__(self, cls: type, name: str, write: Callable[[type], Any]) -> None:
        self.cls, self.name, self.write = cls, name, write

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        written = self.write(self.cls)
        setattr(self.cls, self.name, written)
        return written.__get__(instance, owner)


class _Factory:
    """What signatures show for a value that is made anew for each object."""

    def __repr__(self) -> str:
        return "<factory>"


def _init(cls: type) -> Any:
    """`__init__`, written in the module of the class, where the names in its annotations are known."""
    refuses: Any = cls.__setattr__
    frozen = refuses is _refuse_assignment
    names: dict[str, Any] = {"__set": object.__setattr__, "__factory": _Factory()}
    body = []
    for field in fields(cls):
        value = _value(field, names)
        if value:
            body.append(f"__set(self, {field.name!r}, {value})" if frozen else f"self.{field.name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    taken = [field for field in fields(cls) if field.init]
    by_name = [_parameter(field) for field in taken if field.kw_only]
    parameters = ["self", *(_parameter(field) for field in taken if not field.kw_only), *(["*", *by_name] if by_name else [])]
    lines = [f"def __create({', '.join(names)}):", f" def __init__({', '.join(parameters)}):"]
    lines += [f"  {line}" for line in body or ["pass"]]
    made: dict[str, Any] = {}
    exec("\n".join([*lines, " return __init__"]), vars(sys.modules[cls.__module__]), made)  # noqa: S102
    init = made["__create"](**names)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{field.name: field.type for field in taken}, "return": None}
    return init


def _value(field: Field[Any], names: dict[str, Any]) -> str:
    """The expression that a field is set to; objects that it names go to `names`."""
    if field.default_factory is not MISSING:
        names[f"__make_{field.name}"] = field.default_factory
        made = f"__make_{field.name}()"
        return f"{made} if {field.name} is __factory else {field.name}" if field.init else made
    if field.default is not MISSING:
        names[f"__default_{field.name}"] = field.default
        return field.name if field.init else f"__default_{field.name}"
    return field.name if field.init else ""


def _parameter(field: Field[Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=__factory"
    return field.name if field.default is MISSING else f"{field.name}=__default_{field.name}"


def _repr(cls: type) -> Callable[[Any], str]:
    names = [field.name for field in fields(cls) if field.repr]

    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:  # noqa: N807
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return __repr__


def _values(cls: type) -> Callable[[Any], tuple[Any, ...]]:
    """What objects are compared by."""
    names = [field.name for field in fields(cls) if field.compare]
    return operator.attrgetter(*names) if len(names) > 1 else lambda self: tuple([getattr(self, name) for name in names])


def _equal(cls: type) -> Callable[[Any, object], Any]:
    return _comparison(cls, operator.eq)


def _comparison(cls: type, compare: Callable[[Any, Any], bool]) -> Callable[[Any, object], Any]:
    values = _values(cls)

    def method(self: Any, other: object) -> Any:
        return compare(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented

    method.__name__ = f"__{compare.__name__}__"
    method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
    return method


_ORDER = {
    operator.lt: lambda cls: _comparison(cls, operator.lt),
    operator.le: lambda cls: _comparison(cls, operator.le),
    operator.gt: lambda cls: _comparison(cls, operator.gt),
    operator.ge: lambda cls: _comparison(cls, operator.ge),
}


def _hash(cls: type) -> Callable[[Any], int]:
    values = _values(cls)
    return lambda self: hash(values(self))


def _refuse_assignment(self: Any, name: str, value: object) -> None:
    if _is_field(self, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_deletion(self: Any, name: str) -> None:
    if _is_field(self, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_field(self: Any, name: str) -> bool:
    """Whether a name is one of a frozen class; one that derives from it without being a dataclass may have others."""
    return "__dataclass_fields__" in vars(type(self)) or name in self.__dataclass_fields__


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
