"""Conversion of a context into a request to a provider or an agent. Each of them has its own module.

A module has a function ``request(context, *, system=None)``. It returns the request as JSON values: the field
``messages``, or the provider's field for the same purpose, and other fields. ``system`` replaces the system prompt of
the context. The modules are loaded on demand. They do not send requests.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from gitsession.errors import NotFound

PROVIDERS = {
    "pi": "pi",
    "codex": "codex",
    "anthropic": "anthropic",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
}
"""Values of ``--as``, each with its module in this package."""


def provider(name: str) -> ModuleType:
    """Return the module of one of ``PROVIDERS``. Raises ``NotFound`` if the name is unknown."""
    if name not in PROVIDERS:
        raise NotFound(f"unknown provider {name!r}", hint=f"choose one of {', '.join(PROVIDERS)}")
    return import_module(f"{__name__}.{PROVIDERS[name]}")
