"""Dataclasses with slots that are fast to define.

For a frozen class, ``dataclasses.dataclass`` compiles six methods, which took almost half of the time to import the
library. The decorator in this module compiles only ``__init__``, when it is first used. All classes share the other
methods. Classes without slots are left to the standard library.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """Make ``cls`` a dataclass. The result behaves like that of ``dataclasses.dataclass`` with the same options."""
        if cls is None:
            return functools.partial(dataclass, **options)
        cls.__doc__ = cls.__doc__ or cls.__qualname__  # otherwise, `dataclasses` loads `inspect` to derive one
        if not options.get("slots"):
            return dataclasses.dataclass(cls, **options)
        return _slotted(cls, frozen=options.get("frozen", False), kw_only=options.get("kw_only", False))


def _slotted(cls: type, *, frozen: bool, kw_only: bool) -> type:
    cls = dataclasses.dataclass(cls, init=False, repr=False, eq=False, slots=True, kw_only=kw_only)
    fields = dataclasses.fields(cls)
    own = cls.__dict__
    methods: dict[str, Any] = {
        "_compared": _getter([field.name for field in fields if field.compare]),
        "__init__": _Init(cls, fields),
        "__repr__": own.get("__repr__", _repr),
        "__eq__": own.get("__eq__", _eq),
        "__hash__": own.get("__hash__") or (_hash if frozen else None),
    }
    if frozen:
        methods |= {
            "__setattr__": _setattr,
            "__delattr__": _delattr,
            "__getstate__": _getstate,
            "__setstate__": _setstate,
        }
    for name, method in methods.items():
        setattr(cls, name, method)
    return cls


def _getter(names: list[str]) -> Callable[[object], object]:
    return attrgetter(*names) if names else lambda _: ()


class _Init:
    """The ``__init__`` of a class until it is first used. Then the compiled method takes its place."""

    def __init__(self, cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> None:
        self._cls = cls
        self._fields = fields

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        init = _compiled_init(self._cls, self._fields)
        self._cls.__init__ = init  # type: ignore[misc]
        return init.__get__(instance, owner)


class _Factory:
    """The default of a parameter whose field has a default factory, in the words of the standard library."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _compiled_init(cls: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """Return ``__init__``. It sets each field by the descriptor of its slot, because ``__setattr__`` is disabled."""
    known: dict[str, Any] = {"_factory": _FACTORY}
    positional: list[str] = ["self"]
    keywords: list[str] = []
    body: list[str] = []
    for field in fields:
        name = value = field.name
        known[f"_set_{name}"] = getattr(cls, name).__set__
        parameter = name
        if field.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
        elif field.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_factory"
            value = f"_make_{name}() if {name} is _factory else {name}"
        if field.init:
            (keywords if field.kw_only else positional).append(parameter)
        elif parameter != name:
            value = f"_make_{name}()" if field.default is dataclasses.MISSING else f"_default_{name}"
        else:
            continue
        body.append(f" _set_{name}(self, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n" + ("\n".join(body) or " pass"), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


@recursive_repr()
def _repr(self: Any) -> str:
    shown = [field.name for field in dataclasses.fields(self) if field.repr]
    return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


def _eq(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    compared = self._compared
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(self._compared(self))


def _setattr(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[object]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
