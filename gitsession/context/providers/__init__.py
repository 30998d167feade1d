"""Conversion of a context into a request to a provider or an agent, with one module for each of them.

Modules are loaded on demand. They do not send requests.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from gitsession.errors import NotFound

PROVIDERS = {
    "pi": "pi",
    "codex": "codex",
    "anthropic": "anthropic",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
}
"""Values of ``--as``, each with its module in this package."""


class Provider(Protocol):
    """The interface of the modules in this package."""

    def request(self, context: Any, *, system: str | None = None) -> dict[str, Any]:
        """Return the request for a ``Context`` as JSON values.

        It has ``messages``, or the field that the provider uses instead, and other fields. ``system`` replaces the
        system prompt of the context.
        """


def provider(name: str) -> Provider:
    """Return the module of one of ``PROVIDERS``. Raises ``NotFound`` if the name is unknown."""
    if name not in PROVIDERS:
        raise NotFound(f"unknown provider {name!r}", hint=f"choose one of {', '.join(PROVIDERS)}")
    return cast(Provider, import_module(f"{__name__}.{PROVIDERS[name]}"))
