"""JSON Schemas of methods, from the annotations and docstrings of their functions, and the check of parameters."""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from gitsession.errors import Malformed

Schema = dict[str, Any]
Method = Callable[..., Any]

_SCALARS: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("string", (str,)),
    int: ("integer", (int,)),
    bool: ("boolean", (bool,)),
    float: ("number", (int, float)),
    types.NoneType: ("null", (types.NoneType,)),
}


def schema_of(annotation: Any) -> Schema:
    """Return the JSON Schema of the values that an annotation allows."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is NotRequired:
        return schema_of(arguments[0])
    if origin is Annotated:  # a document of docs/reference/json.md
        return {**schema_of(arguments[0]), "$comment": f"gitsession/{arguments[1]}/1"}
    if annotation in _SCALARS:
        return {"type": _SCALARS[annotation][0]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [schema_of(each) for each in arguments]}
    if origin is list:
        return {"type": "array", "items": schema_of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(arguments[1])}
    if is_typeddict(annotation):
        fields = get_type_hints(annotation, include_extras=True)
        described = descriptions(annotation.__doc__ or "", "Attributes")
        properties = {name: {**schema_of(each), **_described(described, name)} for name, each in fields.items()}
        required = [name for name, each in fields.items() if get_origin(each) is not NotRequired]
        return {"type": "object", "properties": properties, "required": required}
    return {}  # ``Any``


def _described(described: Mapping[str, str], name: str) -> Schema:
    return {"description": described[name]} if name in described else {}


def descriptions(doc: str, heading: str) -> dict[str, str]:
    """Return the descriptions in a section of a docstring, by name."""
    _, found, text = inspect.cleandoc(doc).partition(f"\n{heading}:\n")
    section = re.split(r"\n\S", text)[0] if found else ""
    pairs = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(words.split()) for name, words in pairs}


def summary(method: Method) -> str:
    """Return the docstring of a method without its sections, on one line."""
    return " ".join(re.split(r"\n\n?(?:Args|Returns):", inspect.cleandoc(method.__doc__ or ""))[0].split())


def parameters(method: Method) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the annotation and the default (``inspect.Parameter.empty`` if none) of each parameter."""
    hints = get_type_hints(method, include_extras=True)
    for name, parameter in list(inspect.signature(method).parameters.items())[1:]:
        yield name, hints[name], parameter.default


def bind(method: Method, params: object, where: str = "params") -> dict[str, Any]:
    """Return the checked arguments of a call. Raises ``Malformed``, with the name of the parameter after ``where``."""
    known = {name: (annotation, default) for name, annotation, default in parameters(method)}
    if params is None:
        params = {}
    if isinstance(params, list) and len(params) <= len(known):
        params = dict(zip(known, params, strict=False))
    if not isinstance(params, dict):
        raise Malformed(f"expected an object, or an array of at most {len(known)} values", where=where)
    for name in params.keys() - known.keys():
        raise Malformed("unknown parameter", where=f"{where}.{name[:40]}", hint=f"pass {', '.join(known)}")
    for name, (annotation, default) in known.items():
        if name in params:
            check(annotation, params[name], f"{where}.{name}")
        elif default is inspect.Parameter.empty:
            raise Malformed("the parameter is missing", where=f"{where}.{name}")
    return params


def check(annotation: Any, value: object, where: str) -> None:
    """Raise ``Malformed`` if a value does not have the type of an annotation that a parameter can have."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        if value is not None or types.NoneType not in arguments:
            check(next(each for each in arguments if each is not types.NoneType), value, where)
    elif annotation in _SCALARS:
        if type(value) not in _SCALARS[annotation][1]:
            raise Malformed(f"expected a value of type {_SCALARS[annotation][0]}", where=where)
    elif origin is Literal:
        if value not in arguments or not isinstance(value, str):
            raise Malformed(f"expected one of {', '.join(arguments)}", where=where)
    elif origin is list:
        if not isinstance(value, list):
            raise Malformed("expected an array", where=where)
        for number, each in enumerate(value):
            check(arguments[0], each, f"{where}[{number}]")
    elif not isinstance(value, dict):
        raise Malformed("expected an object", where=where)
