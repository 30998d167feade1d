"""Modules that are executed when one of their attributes is first used, not when they are imported."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from types import ModuleType

_LOCK = threading.RLock()
"""Several threads may use a module for the first time at once."""


class PostponedModule(ModuleType):
    """A module without attributes, which takes the attributes of the real module when the first one is used.

    ``importlib.util.LazyLoader`` does not help, because a second ``import`` of its module executes the module.
    """

    def __getattr__(self, name: str) -> object:
        with _LOCK:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
                self.__dict__.update(vars(import_module(self.__name__)))
        return super().__getattribute__(name)


def postpone(name: str) -> None:
    """Postpone the execution of a module, unless it is already imported."""
    sys.modules.setdefault(name, PostponedModule(name))
