"""The parts of Markdown in which agents find imports: code and comments are none."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r" {0,3}(`{3,}+(?!.*`)|~{3,})")
_TICKS = re.compile("`+")
_TAG = re.compile(r" {0,3}</?[A-Za-z]")
_COMMENT_START = re.compile(r" {0,3}<!--")
_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s")


def blank_code(text: str) -> str:
    """Return ``text`` with spaces in place of code blocks and code spans. Each position stays the same."""
    lines = text.split("\n")
    kinds = list(_kinds(lines))
    blanked = [" " * len(line) if is_code else line for line, is_code in zip(lines, kinds, strict=True)]
    return _blank_spans("\n".join(blanked))


def _kinds(lines: list[str]) -> Iterator[bool]:
    """Yield for each line whether it belongs to a code block: between fences, or indented."""
    fence = ""
    in_list, after_blank = False, True
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            is_end = found is not None and found[1].startswith(fence) and not line.strip(f" {fence[0]}")
            fence = "" if is_end else fence
            yield True
            continue
        if found:
            fence = found[1]
            yield True
            continue
        is_indented = line.startswith(("    ", "\t")) and bool(line.strip())
        is_code = is_indented and after_blank and not in_list
        if line.strip() and not is_indented:
            in_list = _ITEM.match(line) is not None or (in_list and line.startswith(" "))
        after_blank = is_code or not line.strip()
        yield is_code


def _blank_spans(text: str) -> str:
    """Replace code spans by spaces. A span ends at the next run of as many backticks in its paragraph."""
    runs = [(found.start(), found.end()) for found in _TICKS.finditer(text)]
    breaks = [found.start() for found in re.finditer(r"\n[ \t]*\n", text)]
    closing: dict[int, int] = {}
    latest: dict[int, int] = {}
    for at in range(len(runs) - 1, -1, -1):
        start, end = runs[at]
        while breaks and breaks[-1] > start:  # a paragraph begins after this run: no span crosses into it
            breaks.pop()
            latest.clear()
        if (other := latest.get(end - start)) is not None:
            closing[at] = other
        latest[end - start] = at
    parts, done, at = [], 0, 0
    while at < len(runs):
        if (other := closing.get(at)) is None:
            at += 1
            continue
        start, end = runs[at][0], runs[other][1]
        parts += [text[done:start], re.sub(r"[^\n]", " ", text[start:end])]
        done, at = end, other + 1
    return "".join([*parts, text[done:]])


def without_comments(text: str) -> str:
    """Return ``text`` without the HTML comments that are blocks of their own, as Claude Code sends it."""
    if "<!--" not in text:
        return text
    lines = text.split("\n")
    kept: list[str] = []
    at = 0
    code = list(_kinds(lines))
    while at < len(lines):
        if code[at] or not _COMMENT_START.match(lines[at]):
            at = _copy(lines, at, code[at], kept)
            continue
        end = next((n for n in range(at, len(lines)) if "-->" in lines[n]), None)
        if end is None:  # a comment without an end is text
            kept += lines[at:]
            break
        rest = _cut_comments("\n".join(lines[at : end + 1]))
        at = end + 1
        while at < len(lines) and not lines[at].strip():
            at += 1
        if rest.strip():
            kept += [rest, *[""] * (at - end - 1)]
        elif at == len(lines) and lines[-1] == "":
            kept.append("")
    return "\n".join(kept)


def _cut_comments(text: str) -> str:
    """Return ``text`` without comments. A regular expression would search for each missing end again."""
    parts, done = [], 0
    while (start := text.find("<!--", done)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[done:start])
        done = end + 3
    return "".join([*parts, text[done:]])


def _copy(lines: list[str], at: int, is_code: bool, kept: list[str]) -> int:
    """Keep the line, or the whole HTML block that begins with a tag. Return the position of the next line."""
    kept.append(lines[at])
    if not is_code and _TAG.match(lines[at]):
        while at + 1 < len(lines) and lines[at + 1].strip():
            at += 1
            kept.append(lines[at])
    return at + 1
