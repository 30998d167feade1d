"""Plugins: values that installed packages offer as entry points (docs/reference/plugins.md).

Stores and their configuration can contain the names of plugins. A name only selects among the entry points of installed
distributions. It is never the name of a module or the path of a file.

To read the metadata of all distributions takes as long as `gitsession ls`. So callers look up a name only if it is not
one of gitsession's own names, or if they need a list.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from gitsession.errors import GitSessionError, PluginFailed
from gitsession.pattern import pattern

if TYPE_CHECKING:
    from importlib.metadata import Distribution

T = TypeVar("T")

KINDS = ("formats", "exporters", "summarizers", "prompts", "tokenizers", "secrets")
"""The kinds of plugins. The entry-point group of a kind is ``gitsession.`` and the kind."""

NAME_MAX = 40
_NAME = pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_PREFIX = "gitsession."
_TEXT_MAX = 300


class Plugin(NamedTuple):
    """An entry point of an installed distribution.

    Attributes:
        kind: One of ``KINDS``.
        name: Name of the entry point.
        value: Module and attribute, as ``module:attribute``.
        distribution: Name of the distribution.
        version: Version of the distribution.
        problem: Reason why the plugin cannot be used; "" if there is none.
    """

    kind: str
    name: str
    value: str
    distribution: str
    version: str
    problem: str = ""

    @property
    def group(self) -> str:
        return _PREFIX + self.kind

    def __str__(self) -> str:
        return f"{self.name} of {self.distribution} {self.version}".rstrip()

    def load(self) -> Any:
        """Return the value of the entry point. Raises ``PluginFailed``."""
        if self.problem:
            raise self.failure(self.problem)
        from importlib.metadata import EntryPoint

        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output can be a protocol, or JSON
                return EntryPoint(self.name, self.value, self.group).load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # including `sys.exit`
            raise self.failure(f"the import failed: {described(error)}") from error

    def call(self, function: Callable[..., T], /, *arguments: Any, **options: Any) -> T:
        """Return the result of a function of the plugin.

        Raises ``PluginFailed``, or the ``GitSessionError`` of the function.
        """
        try:
            return function(*arguments, **options)
        except (GitSessionError, KeyboardInterrupt):
            raise
        except BaseException as error:  # including `sys.exit`
            raise self.failure(described(error)) from error

    def require(self, value: object, kind: type[T], expected: str) -> T:
        """Return ``value``. Raises ``PluginFailed`` if it is not an instance of ``kind``."""
        if not isinstance(value, kind):
            raise self.failure(f"expected {expected}, found {type(value).__name__}")
        return value

    def failure(self, problem: str) -> PluginFailed:
        """Return an error with the name of the plugin, its distribution and its group."""
        name = f"'{self.name[:NAME_MAX]}' of {self.distribution} {self.version}".rstrip()
        what = f"cannot use the plugin {name} (entry points {self.group}): {problem}"
        return PluginFailed(
            _on_a_line(what), _on_a_line(problem), hint=f"update or uninstall {_on_a_line(self.distribution)}"
        )


def find(kind: str, name: str) -> Plugin | None:
    """Return the plugin ``name``; ``None`` if no installed distribution offers it."""
    return of_kind(kind).get(name) if is_name(name) else None


def of_kind(kind: str) -> Mapping[str, Plugin]:
    """Return the plugins of a kind by name, including those that cannot be used. They are ordered by name."""
    return _of_path(_path())[kind]


def invalid() -> Sequence[Plugin]:
    """Return the entry points whose names are invalid. Nothing can select them."""
    return _invalid_of_path(_path())


def names(kind: str, own: Collection[str]) -> list[str]:
    """Return ``own``, gitsession's own names, and then the names of the plugins of a kind."""
    return [*own, *(name for name in of_kind(kind) if name not in own)]


def is_name(name: str) -> bool:
    """Return whether ``name`` can be the name of a plugin."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


_reported: set[str] = set()


def report(failure: PluginFailed) -> None:
    """Log a failure that does not end the operation. Each failure is logged once per process.

    Without any configuration of ``logging``, Python prints the warning to standard error.
    """
    if str(failure) not in _reported:
        _reported.add(str(failure))
        import logging  # few processes need it

        logging.getLogger(__name__).warning("warning: %s (%s)", failure, failure.hint)


def _path() -> tuple[str, ...]:
    """Return Python's search path without the working directory.

    `python -m` puts the working directory on the path. It may be a checkout from somebody else, in which anything can
    look like an installed distribution.
    """
    try:
        here = os.getcwd()
    except OSError:  # the folder was deleted
        here = ""
    return _outside(tuple(sys.path), here)


@functools.lru_cache(maxsize=4)
def _outside(path: tuple[str, ...], here: str) -> tuple[str, ...]:
    """Return the entries of ``path`` that are not the folder ``here``."""
    folder = os.path.realpath(here)
    return tuple(entry for entry in path if entry and not (here and os.path.realpath(entry) == folder))


@functools.lru_cache(maxsize=4)
def _of_path(path: tuple[str, ...]) -> Mapping[str, Mapping[str, Plugin]]:
    found: dict[str, dict[str, Plugin]] = {kind: {} for kind in KINDS}
    for plugin in sorted(_scan(path)):
        if is_name(plugin.name):
            other = found[plugin.kind].get(plugin.name)
            problem = f"{other.distribution} has a plugin with this name, too" if other is not None else ""
            found[plugin.kind][plugin.name] = plugin._replace(problem=problem)
    return found


@functools.lru_cache(maxsize=4)
def _invalid_of_path(path: tuple[str, ...]) -> Sequence[Plugin]:
    problem = f"the name is not 1 to {NAME_MAX} characters of a-z, 0-9 and single -"
    return [plugin._replace(problem=problem) for plugin in sorted(_scan(path)) if not is_name(plugin.name)]


def _scan(path: Sequence[str]) -> Iterator[Plugin]:
    """Yield the plugins of all distributions. Of several distributions with one name, only the first one counts."""
    from importlib.metadata import distributions  # slow: loading it takes a fifth of a command's start time

    seen: set[str] = set()
    for distribution in distributions(path=list(path)):
        try:
            plugins = _of_distribution(distribution)
        except Exception:  # metadata that cannot be read, of a distribution that may have no plugins
            continue
        name = plugins[0].distribution.lower().replace("_", "-") if plugins else ""
        if name not in seen:
            seen.add(name)
            yield from plugins


def _of_distribution(distribution: Distribution) -> list[Plugin]:
    if f"[{_PREFIX}" not in (distribution.read_text("entry_points.txt") or ""):
        return []
    name, version = distribution.metadata["Name"], distribution.metadata["Version"]
    groups = {_PREFIX + kind: kind for kind in KINDS}
    return [
        Plugin(groups[point.group], point.name, point.value, _on_a_line(name or "unknown"), _on_a_line(version or ""))
        for point in distribution.entry_points
        if point.group in groups
    ]


def described(error: BaseException) -> str:
    """Return the type and the text of an exception."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _on_a_line(text: str) -> str:
    """Return ``text`` on one line, without control characters, and shortened."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"
