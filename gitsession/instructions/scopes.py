"""Globs of the paths to which instructions apply, and the selection of the instructions in force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import escape
from pathlib import PurePath

from gitsession.model.instructions import InstructionFile, InstructionSet

ALTERNATIVES_MAX = 256
EXPANDED_CHARS_MAX = 64 * 1024
"""Largest number and total length of the globs to which the braces of one glob are expanded."""

ANY_DEPTH = "**"


def in_force(found: InstructionSet, touched: Iterable[str | PurePath] = ()) -> tuple[InstructionFile, ...]:
    """Return the files in force, in order: those without patterns, and those whose patterns match a touched path.

    Args:
        touched: Absolute paths, or paths below the working directory of ``found``.
    """
    paths = [(PurePath(found.cwd) / path).as_posix() for path in touched]
    return tuple(file for file in found.files if applies(file.patterns, paths))


def applies(patterns: tuple[str, ...], paths: Iterable[str]) -> bool:
    """Return whether instructions with these patterns are in force after the absolute ``paths`` were touched."""
    return not patterns or matches_any(patterns, paths)


def matches_any(patterns: tuple[str, ...], paths: Iterable[str]) -> bool:
    """Return whether the patterns match one of the absolute ``paths``. No patterns match no path."""
    return any(matches(patterns, path) for path in paths)


def matches(patterns: Iterable[str], path: str) -> bool:
    """Return whether a glob matches the absolute ``path`` or a folder above it. ``!`` before a glob excludes paths.

    As in ``.gitignore``, the last matching glob decides.
    """
    parts = path.split("/")
    found = False
    for pattern in patterns:
        is_exclusion = pattern.startswith("!")
        if found == is_exclusion and _matches(pattern.removeprefix("!").split("/"), parts):
            found = not is_exclusion
    return found


def _matches(pattern: list[str], parts: list[str]) -> bool:
    """Match part by part, with the set of all positions in ``pattern``: the time is bounded for any pattern."""
    positions = _skip(pattern, {0})
    for part in parts:
        after: set[int] = set()
        for at in positions:
            if pattern[at] == ANY_DEPTH:
                after |= {at, at + 1} if at + 1 == len(pattern) else {at}
            elif fnmatchcase(part, pattern[at]):
                after.add(at + 1)
        if len(pattern) in after:
            return True
        positions = _skip(pattern, after)
    return False


def _skip(pattern: list[str], positions: set[int]) -> set[int]:
    """Add the positions after each ``**``, which also matches no folder, unless it is the last part."""
    for at in sorted(positions):
        while at + 1 < len(pattern) and pattern[at] == ANY_DEPTH:
            positions.add(at := at + 1)
    return positions


def below(folder: PurePath) -> tuple[str, ...]:
    """Return the patterns that match every path in ``folder``."""
    return (f"{escape(folder.as_posix()).rstrip('/')}/{ANY_DEPTH}",)


def absolute(patterns: Iterable[str], base: PurePath) -> tuple[str, ...]:
    """Return globs relative to ``base`` as absolute globs, with expanded braces.

    As in ``.gitignore``, a glob without a slash matches at any depth, and a slash at the start stands for ``base``.
    """
    found = []
    for pattern in patterns:
        for glob in expand_braces(pattern.strip()):
            body = glob.removeprefix("!").rstrip("/")
            if not body:
                continue
            prefix = "" if "/" in body else f"{ANY_DEPTH}/"
            exclusion = "!" if glob.startswith("!") else ""
            found.append(f"{exclusion}{escape(base.as_posix()).rstrip('/')}/{prefix}{body.lstrip('/')}")
    return tuple(dict.fromkeys(found))


def expand_braces(pattern: str) -> tuple[str, ...]:
    """Return the globs of ``a.{b,c}``: ``a.b`` and ``a.c``. Too many alternatives leave the glob unchanged."""
    found = [pattern]
    for _ in range(pattern.count("{")):
        expanded: list[str] = []
        chars = 0
        for each in (each for glob in found for each in _expand_one(glob)):
            chars += len(each)
            if len(expanded) == ALTERNATIVES_MAX or chars > EXPANDED_CHARS_MAX:
                return (pattern,)
            expanded.append(each)
        found = expanded
    return tuple(found)


def _expand_one(pattern: str) -> Iterator[str]:
    """Expand the last innermost pair of braces."""
    start = pattern.rfind("{")
    end = pattern.find("}", start)
    if start < 0 or end < 0:
        yield pattern
        return
    for choice in pattern[start + 1 : end].split(","):
        yield pattern[:start] + choice + pattern[end + 1 :]
