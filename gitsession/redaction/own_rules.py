"""The user's own rules in a TOML file, and the rules of the plugins that the file names (docs/explanation/secrets.md).

Each rule has samples that it must find. The rule is tested with its samples before it is used, because a wrong rule
would silently find nothing.
"""

from __future__ import annotations

import errno
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from gitsession.errors import NotFound, Refused
from gitsession.plugins import Plugin, described, find
from gitsession.redaction.rule import Check, Rule
from gitsession.redaction.scan import RULES, Scanner

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME_MAX = 40
_FIELDS = {"name": str, "pattern": str, "words": list, "samples": list, "never": list}


class UserRules(NamedTuple):
    """The content of a rules file.

    Attributes:
        rules: The rules, including those of plugins.
        off: Names of the built-in rules that are turned off.
        allow: Texts that are not secrets. A hit is not redacted if it is equal to one of them.
        plugins: Names of the selected plugins.
    """

    rules: tuple[Rule, ...]
    off: frozenset[str]
    allow: frozenset[bytes]
    plugins: tuple[str, ...] = ()


def read(file: Path) -> UserRules:
    """Read the rules in ``file``.

    Raises ``NotFound``, ``PluginFailed``, or ``Refused`` with the invalid rule and the reason.
    """
    try:
        path = Path(os.path.expanduser(file))
        if path.exists() and not path.is_file():
            raise OSError(errno.EINVAL, "not a regular file")
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise NotFound(f"cannot read the rules in '{file}': {error.strerror}", hint=_HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the rules in '{file}': {error}", hint=_HINT) from None
    tables = document.get("rule", [])
    if not isinstance(tables, list) or document.keys() - {"rule", "off", "allow", "plugins"}:
        raise _refusal(f"rules in '{file}'", "expected only off, allow, plugins, and tables [[rule]]")
    off, allow, plugins = (_texts(document, name, file) for name in ("off", "allow", "plugins"))
    unknown = sorted({*off} - {rule.name for rule in RULES})
    if unknown:
        raise _refusal(f"rules in '{file}'", f"off names {unknown[0][:_NAME_MAX]!a}, which is not a built-in rule")
    rules = tuple(_rule(table, f"rule {number} in '{file}'") for number, table in enumerate(tables, 1))
    for name in plugins:
        plugin = find("secrets", name)
        if plugin is None:
            what = f"cannot use the rules in '{file}': no installed package has the plugin {name[:_NAME_MAX]!a}"
            raise NotFound(what, hint="install the package with these rules, or remove the name from plugins")
        rules += tuple(rules_of_plugin(plugin))
    twice = sorted({rule.name for rule in rules if sum(each.name == rule.name for each in rules) > 1})
    if twice:
        raise _refusal(f"rules in '{file}'", f"two rules have the name {twice[0]!r}")
    return UserRules(rules, frozenset(off), frozenset(text.encode() for text in allow), plugins)


def rules_of_plugin(plugin: Plugin) -> Iterator[Rule]:
    """Yield the rules of a plugin. Raises ``PluginFailed``."""
    for value in plugin.require(plugin.load(), Sequence, "a list of Rule"):
        rule = plugin.require(value, Rule, "a list of Rule")
        rule = replace(rule, is_token=False, check=rule.check and _checked(plugin, rule))
        try:
            _check_rule(rule, "rule")
        except (Refused, TypeError, AttributeError, ValueError) as error:  # such as a pattern that is not bytes
            problem = error if isinstance(error, Refused) else described(error)
            raise plugin.failure(f"rule {rule.name!r}: {problem}") from error
        yield rule


def _checked(plugin: Plugin, rule: Rule) -> Check:
    """Return the function ``check`` of a rule. If it fails, nothing is written."""

    def check(found: bytes) -> bool:
        assert rule.check is not None
        return plugin.require(plugin.call(rule.check, found), bool, f"True or False from the rule {rule.name}")

    return check


def _texts(document: dict[str, Any], name: str, file: Path) -> tuple[str, ...]:
    texts = document.get(name, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise _refusal(f"rules in '{file}'", f"{name} must be a list of strings")
    return tuple(dict.fromkeys(texts))


_HINT = "correct the file, or set gitsession.rules in the store's configuration to another file"


def _rule(table: Any, where: str) -> Rule:
    _check_fields(table, where)
    words = tuple(word.encode() for word in table.get("words", []))
    samples, never = (tuple(table.get(field, [])) for field in ("samples", "never"))
    rule = Rule(table["name"], table["pattern"].encode(), words, is_token=False, samples=samples, never=never)
    _check_rule(rule, where)
    return rule


def _check_rule(rule: Rule, where: str) -> None:
    name = rule.name
    if not _NAME.fullmatch(name) or len(name) > _NAME_MAX or any(rule.name == name for rule in RULES):
        problem = (
            f"the name {name[:_NAME_MAX]!r} is already in use, or not 1 to {_NAME_MAX} characters of a-z, 0-9 and -"
        )
        raise _refusal(where, problem)
    where = where if " in " not in where else f"rule {name} in {where.partition(' in ')[2]}"
    _check_pattern(rule.pattern, where)
    _check_samples(rule, where)


def _refusal(rules: str, problem: str) -> Refused:
    return Refused(f"invalid {rules}: {problem}", hint=_HINT)


def _check_fields(table: Any, where: str) -> None:
    if not isinstance(table, dict) or table.keys() - _FIELDS.keys():
        raise _refusal(where, f"expected a table with only {', '.join(_FIELDS)}")
    for field, kind in _FIELDS.items():
        value = table.get(field, [] if kind is list else None)
        if not isinstance(value, kind) or (kind is list and not all(isinstance(item, str) for item in value)):
            raise _refusal(where, f"{field} must be a {'list of strings' if kind is list else 'string'}")


def _check_pattern(pattern: bytes, where: str) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise _refusal(where, f"cannot compile the pattern: {error}") from None
    if is_exponential(pattern):
        raise _refusal(where, "a nested repetition may take exponential time: make it possessive, (...)++")
    if compiled.match(b"") is not None:
        raise _refusal(where, "the pattern matches the empty string")


def _check_samples(rule: Rule, where: str) -> None:
    if not rule.samples:
        raise _refusal(where, "samples must have at least one text that the pattern matches")
    scanner = Scanner(rules=(), extra=(rule,))
    for sample in rule.samples:
        if not scanner.scan_bytes(sample.encode()):
            raise _refusal(
                where, f"the pattern does not match the sample {sample[:4]!r}... of {len(sample)} characters"
            )
    for sample in rule.never:
        if scanner.scan_bytes(sample.encode()):
            raise _refusal(where, f"the pattern matches {sample[:40]!r}, which is listed in never")


TURNS_MAX = 8
"""Maximum number of repetitions of a part that can match in several ways.

The number of matching attempts is exponential in the number of repetitions.
"""

_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT"})


def is_exponential(pattern: bytes) -> bool:
    """Return whether a repetition in ``pattern`` contains a repetition or a choice, as in ``(a+)+`` and ``(a|ab)*``.

    The number of matching attempts for a string that almost matches is then exponential in the length of the string. A
    possessive repetition, as in ``(a+)++``, makes only one attempt. Raises ``re.error``.
    """
    return _has_nested_repetition(re._parser.parse(pattern))  # type: ignore[attr-defined]


def _has_nested_repetition(items: Any) -> bool:
    return any(
        (str(kind) in _REPEATS and argument[1] > TURNS_MAX and _is_ambiguous(argument[2]))
        or any(map(_has_nested_repetition, _subpatterns(argument)))
        for kind, argument in items
    )


def _is_ambiguous(items: Any) -> bool:
    """Return whether the items of a parsed pattern can match in several ways at one position."""
    return any(
        str(kind) in ("BRANCH", "GROUPREF_EXISTS")
        or (str(kind) in _REPEATS and argument[0] != argument[1])
        or (str(kind) in {*_REPEATS, "SUBPATTERN"} and any(map(_is_ambiguous, _subpatterns(argument))))
        for kind, argument in items
    )


def _subpatterns(argument: Any) -> list[Any]:
    """Return the subpatterns in the argument of an item of a parsed pattern."""
    if isinstance(argument, re._parser.SubPattern):  # type: ignore[attr-defined]
        return [argument]
    if not isinstance(argument, tuple | list):
        return []
    return [subpattern for part in argument for subpattern in _subpatterns(part)]
