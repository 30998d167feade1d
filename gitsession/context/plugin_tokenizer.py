"""Tokenizers of plugins: functions that count the tokens in a text for a model (docs/reference/plugins.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from gitsession import plugins
from gitsession.errors import NotFound


def find_tokenizer(name: str, model: str | None, own: Collection[str]) -> Callable[[str], int] | None:
    """Return the function of the plugin ``name`` that counts for ``model``; ``None`` if it does not know the model.

    ``own``: gitsession's own names, for the error. Raises ``NotFound`` and ``PluginFailed``.
    """
    plugin = plugins.find("tokenizers", name)
    if plugin is None:
        known = ", ".join(plugins.names("tokenizers", own))
        hint = f"set gitsession.tokenizer to one of {known}, or install the package with this tokenizer"
        raise NotFound(f"unknown tokenizer {name!r}", hint=hint)
    function = plugin.load()
    if not callable(function):
        raise plugin.failure(f"expected a function, found {type(function).__name__}")
    if plugin.call(function, "", model) is None:
        return None

    def count(text: str) -> int:
        found: Any = plugin.call(function, text, model)
        if type(found) is not int or found < 0:
            raise plugin.failure(f"expected a number of tokens, found {type(found).__name__} {found!r}")
        return found

    return count
