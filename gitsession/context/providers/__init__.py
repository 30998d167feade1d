"""From a context to what a provider or an agent wants to be sent: one module each, one protocol, one table.

A module is loaded when it is asked for. Pure: nothing is sent from here.
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
"""What ``--as`` takes, and the module of this folder that makes it."""


class Provider(Protocol):
    """What a module of this folder offers."""

    def request(self, context: Any, *, system: str | None = None) -> dict[str, Any]:
        """What is sent of a ``Context``: ``messages``, or what the provider calls them, and more. JSON can hold it.

        ``system``: put in place of the system prompt that the context states.
        """


def provider(name: str) -> Provider:
    """The module of one of ``PROVIDERS``. Raises ``NotFound`` for another name."""
    if name not in PROVIDERS:
        raise NotFound(f"no provider {name!r}: choose from {', '.join(PROVIDERS)}")
    return cast(Provider, import_module(f"{__name__}.{PROVIDERS[name]}"))
