"""Faster imports of modules that themselves import slow modules, for a few calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

FEW_CALLS = ("gettext", "inspect", "urllib.parse", "uuid")
"""click uses these modules, except the third, for some help and error texts and for a type that no option has.
``dataclasses`` uses ``inspect`` for classes without a docstring, and ``pathlib`` uses ``urllib.parse`` for URIs."""


class Functions(ModuleType):
    """A placeholder for a module. Its attributes are functions that import the real module when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module = self.__name__

        def call(*args: Any, **kwargs: Any) -> Any:
            if sys.modules.get(module) is self:  # another module calls the function while it is imported
                del sys.modules[module]
            return getattr(import_module(module), name)(*args, **kwargs)

        return call


def import_fast(*names: str) -> None:
    """Import modules with placeholders for the modules that they need for few calls.

    The placeholders are removed afterwards, so all other modules import the real ones.
    """
    if all(name in sys.modules for name in names):
        return
    placeholders = {name: Functions(name) for name in FEW_CALLS if name not in sys.modules}
    sys.modules.update(placeholders)
    try:
        for name in names:
            import_module(name)
    finally:
        for name, placeholder in placeholders.items():
            if sys.modules.get(name) is placeholder:
                del sys.modules[name]
