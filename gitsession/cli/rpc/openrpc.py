"""The OpenRPC document of the methods of ``gitsession rpc``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import get_type_hints

from gitsession.jsonrpc.schema import Method, Schema, descriptions, parameters, schema_of, summary


def openrpc(methods: Mapping[str, Method], version: str, errors: Sequence[tuple[int, str]]) -> Schema:
    """Return the OpenRPC document of the methods."""
    return {
        "openrpc": "1.3.2",
        "info": {"title": "gitsession rpc", "version": version},
        "methods": [_method(name, method, errors) for name, method in methods.items()],
    }


def _method(name: str, method: Method, errors: Sequence[tuple[int, str]]) -> Schema:
    described = descriptions(method.__doc__ or "", "Args")
    params = []
    for parameter, annotation, default in parameters(method):
        is_required = default is inspect.Parameter.empty
        schema = {**schema_of(annotation), **({} if is_required or default is None else {"default": default})}
        description = described.get(parameter, "")
        params.append({"name": parameter, "description": description, "required": is_required, "schema": schema})
    result = {"name": "result", "schema": schema_of(get_type_hints(method, include_extras=True)["return"])}
    found = [{"code": code, "message": name} for code, name in errors]
    return {"name": name, "summary": summary(method), "params": params, "result": result, "errors": found}
