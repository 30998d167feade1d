"""Formats of plugins: their checks, and the handling of their errors.

gitsession's own formats follow the rules of ``base.format``, such as "never raises". A plugin may break them, and a
wrong value could damage a store. So each method of a plugin's format is replaced by a function that checks the result.
If a method fails that must not raise, the failure is logged, and the method has a neutral result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from gitsession.errors import GitSessionError, PluginFailed
from gitsession.formats.base import format as base
from gitsession.formats.base.format import Format
from gitsession.formats.base.outgoing import OutgoingLine, WrittenFile
from gitsession.formats.base.record import WHOLE, Record, Source
from gitsession.model.entries import Entry, Opaque
from gitsession.model.headline import Headline
from gitsession.pattern import pattern
from gitsession.plugins import Plugin, described, report

T = TypeVar("T")

_FORM = pattern(r"[a-z0-9]{1,16}")
_OWN_FORM = "cbor"

_CAPABILITIES = [each for each in vars(base).values() if isinstance(each, type) and issubclass(each, Format)]
_METHODS = sorted(
    {name for each in _CAPABILITIES for name, value in vars(each).items() if callable(value) and name[0] != "_"}
)

_NEUTRAL: Mapping[str, Any] = {
    "claims": False, "owns_tables": False, "is_info": False, "mentions_changes": False, "is_delegated": False,
    "base_of": None, "stated": None, "starting_call": "", "counts": (), "documents": (), "file_changes": (),
}  # fmt: skip
"""The results of failed methods that must not raise."""

_WITH_PAYLOAD: Mapping[str, Callable[[bytes, str], Any]] = {
    "read": lambda payload, problem: Opaque(payload=payload, problem=problem),
    "resolve": lambda payload, problem: payload,
}
"""The results of failed methods that must not raise, from the payload and the problem."""


def load(plugin: Plugin) -> Format:
    """Return the format of a plugin. Raises ``PluginFailed``."""
    value = plugin.load()
    found = plugin.require(plugin.call(value) if isinstance(value, type) else value, Format, "a Format")
    if getattr(found, "AGENT", None) != plugin.name:
        raise plugin.failure(f"expected the AGENT {plugin.name!r}, found {getattr(found, 'AGENT', None)!r}")
    if not isinstance(found.FORM, str) or not _FORM.fullmatch(found.FORM) or found.FORM == _OWN_FORM:
        raise plugin.failure(f"FORM must be 1 to 16 characters of a-z and 0-9, and not {_OWN_FORM!r}")
    plugin.require(found.BETWEEN, bytes, "bytes in BETWEEN")
    for value in plugin.call(tuple, found.FILES):
        plugin.require(value, str, "strings in FILES")
    for value in plugin.call(tuple, found.ROOTS):
        if not isinstance(value, tuple) or [*map(type, value)] != [str, str, str]:
            raise plugin.failure("expected values of SearchRoot in ROOTS")
    for name in _METHODS:
        if hasattr(found, name):
            plugin.call(setattr, found, name, _checked(plugin, name, getattr(found, name)))
    return found


class _Invalid(Exception):
    """A result of the wrong type, or with a wrong value."""


def _checks(agent: str) -> Mapping[str, Callable[[Any], object]]:
    """Return the checks of results by the name of the method."""
    source = functools.partial(_check_source, agent)
    return {
        "claims": lambda value: _require(value, bool, "True or False"),
        "split": source,
        "session": source,
        "from_folders": source,
        "headline": _check_headline,
        "read": lambda value: _require(value, Entry, "an Entry"),
        "write": _check_file,
    }


def _checked(plugin: Plugin, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``method`` with checks of its errors and its result."""
    check = _checks(plugin.name).get(name)
    is_safe = name in _NEUTRAL or name in _WITH_PAYLOAD

    @functools.wraps(method)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            result = method(*arguments, **options)
            result = list(result) if isinstance(result, Iterator) else result
            if check is not None:
                check(result)
            return result
        except PluginFailed as error:  # of another method of the plugin
            failure = error
        except BaseException as error:  # including `sys.exit`
            if isinstance(error, KeyboardInterrupt) or (isinstance(error, GitSessionError) and not is_safe):
                raise  # such as `Malformed` for a file without a session
            failure = plugin.failure(f"{name}: {error if isinstance(error, _Invalid) else described(error)}")
            if not is_safe:
                raise failure from error
        if not is_safe:
            raise failure
        report(failure)
        return _WITH_PAYLOAD[name](arguments[0], str(failure)) if name in _WITH_PAYLOAD else _NEUTRAL[name]

    return checked


def _require(value: object, kind: type[T], expected: str) -> T:
    if not isinstance(value, kind):
        raise _Invalid(f"expected {expected}, found {type(value).__name__}")
    return value


def _check_source(agent: str, value: object) -> None:
    source = _require(value, Source, "a Source")
    if source.agent != agent:
        raise _Invalid(f"expected a Source with the agent {agent!r}, found {source.agent!r}")
    if not _require(source.source_id, str, "text in source_id"):
        raise _Invalid("the source_id is empty")
    _require(source.started_ms, int, "an integer in started_ms")
    seen: set[int] = set()
    for record in source.records:
        _check_record(record)
        if record.line in seen or not 0 < record.line < WHOLE:
            raise _Invalid(f"the line {record.line} of a record is not positive, or another record has it")
        if record.parent is not None and record.parent not in seen and not source.earlier:
            raise _Invalid(f"the parent of line {record.line} is not an earlier record")
        seen.add(record.line)
    for record in source.meta:
        _check_record(record)


def _check_record(value: object) -> None:
    record = _require(value, Record, "values of Record in the Source")
    _require(record.line, int, "an integer in line")
    _require(record.payload, bytes, "bytes in payload")


def _check_headline(value: object) -> None:
    headline = _require(value, Headline, "a Headline")
    for text in (headline.kind, headline.label, headline.role, headline.words, headline.body, headline.model):
        _require(text, str, "text in the Headline")
    for number in (headline.calls, headline.at_ms or 0):
        _require(number, int, "integers in calls and at_ms")


def _check_file(value: object) -> None:
    for line in _require(value, WrittenFile, "a WrittenFile").lines:
        _require(_require(line, OutgoingLine, "values of OutgoingLine").data, bytes, "bytes in the lines")
