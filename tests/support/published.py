"""The types that providers publish for their requests, and a check of requests against them."""

import functools
import json
import sys

import pytest


def check(provider, made):
    """Fail unless ``made`` is a valid request by the types of ``provider``.

    The fields that a caller adds are filled in first.
    """
    read = json.loads(json.dumps(made, allow_nan=False, ensure_ascii=False).encode())
    assert read == made
    added = {"model": "m", "max_tokens": 1} if provider.startswith("anthropic") else {"model": "m"}
    _settle(_adapter(provider).validate_python({**added, **read}))


@functools.cache
def _adapter(provider):
    pydantic, pydantic_core = pytest.importorskip("pydantic"), pytest.importorskip("pydantic_core")
    sdk = pytest.importorskip("anthropic" if provider.startswith("anthropic") else "openai")
    types = {
        "anthropic-beta": lambda: sdk.types.beta.message_create_params.MessageCreateParamsNonStreaming,
        "anthropic": lambda: sdk.types.message_create_params.MessageCreateParamsNonStreaming,
        "openai-chat": lambda: sdk.types.chat.completion_create_params.CompletionCreateParamsNonStreaming,
        "openai-responses": lambda: sdk.types.responses.response_create_params.ResponseCreateParamsNonStreaming,
    }[provider]()
    for name in [name for name in sys.modules if name.startswith(f"{sdk.__name__}.types.")]:
        for known in vars(sys.modules[name]).values():
            if hasattr(known, "__total__"):
                is_open = isinstance(getattr(known, "__extra_items__", None), type)
                extra = "allow" if is_open else "forbid"
                known.__pydantic_config__ = {"extra": extra, "arbitrary_types_allowed": True}
    with pytest.MonkeyPatch.context() as patch:
        # The types also accept answers as objects of the API's classes. A dict must not pass as such an object.
        only_such = classmethod(lambda cls, *_: pydantic_core.core_schema.is_instance_schema(cls))
        patch.setattr(sdk.BaseModel, "__get_pydantic_core_schema__", only_such)
        return pydantic.TypeAdapter(types)


def _settle(value):
    """Read ``value`` recursively, because iterables are validated only when they are read."""
    if isinstance(value, dict):
        for item in value.values():
            _settle(item)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for item in value:
            _settle(item)
