"""Conversion of a context into a request to a provider or an agent. Each of them has its own module.

The modules are loaded on demand. They do not send requests.
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
        """Return the request for ``context``, a ``Context``, as JSON values.

        The request has the field ``messages``, or the provider's field for the same purpose, and other fields.
        ``system`` replaces the system prompt of the context.
        """


def provider(name: str) -> Provider:
    """Return the module of one of ``PROVIDERS``. Raises ``NotFound`` if the name is unknown."""
    if name not in PROVIDERS:
        raise NotFound(f"unknown provider {name!r}", hint=f"choose one of {', '.join(PROVIDERS)}")
    return cast(Provider, import_module(f"{__name__}.{PROVIDERS[name]}"))
