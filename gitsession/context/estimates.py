"""Token estimates of agents: pi counts JavaScript characters, omp counts bytes (rules 14 and 17)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message

if TYPE_CHECKING:
    from gitsession.context.value import Shown

IMAGE_CHARACTERS = 4_800
IMAGE_TOKENS = 1_200


def by_characters(entry: Shown, *, images_of_users: bool = True) -> int:
    """Return pi's estimate in tokens: the number of UTF-16 units divided by four.

    ``images_of_users``: whether images in user messages are counted, as since 0.87.
    """
    if isinstance(entry, Compaction | BranchSummary):
        return _quarter(units(entry.summary))
    role = entry.role if isinstance(entry, Message) else "custom"
    if isinstance(entry, Message) and role == "shell":
        return _quarter(units(entry.command or "") + units(entry.output or ""))
    count = sum(units(text) for text in texts(entry.content, calls=role == "assistant"))
    if role != "assistant" and (role != "user" or images_of_users):
        count += IMAGE_CHARACTERS * images(entry.content)
    if isinstance(entry, Message) and role == "system":
        count += sum(units(text) for text in _of_system(entry))
    return _quarter(count)


def by_bytes(entry: Shown) -> int:
    """Return omp's estimate in tokens: the UTF-8 bytes of each text, including signatures, divided by four."""
    if isinstance(entry, Compaction | BranchSummary):
        return by_bytes_of(entry.summary)
    if isinstance(entry, Message) and entry.role == "shell":
        return by_bytes_of(entry.command or "") + by_bytes_of(entry.output or "")
    assistant = isinstance(entry, Message) and entry.role == "assistant"
    count = sum(by_bytes_of(text) for text in texts(entry.content, calls=assistant))
    if assistant:
        thoughts = (block for block in entry.content if isinstance(block, Thinking))
        return count + sum(by_bytes_of(block.signature or "") for block in thoughts)
    return count + IMAGE_TOKENS * images(entry.content)


def texts(content: Iterable[Block], *, calls: bool) -> Iterator[str]:
    """Yield the texts in ``content``. ``calls``: whether to include reasoning and tool calls, as for an assistant."""
    for block in content:
        if isinstance(block, Text) or (calls and isinstance(block, Thinking)):
            yield block.text
        elif calls and isinstance(block, ToolCall):
            yield block.name
            yield as_javascript(block.arguments)


def images(content: Iterable[Block]) -> int:
    return sum(1 for block in content if is_image(block))


def is_image(block: Block) -> bool:
    """Return whether a block is an image, including an image whose content is stored elsewhere."""
    if isinstance(block, OtherBlock):
        return isinstance(block.value, dict) and block.value.get("type") == "image"
    return isinstance(block, Image)


def _of_system(entry: Message) -> Iterator[str]:
    sections, tools = entry.extra.get("sections"), entry.extra.get("toolsAdded")
    if isinstance(sections, dict):
        yield from (text for text in sections.values() if isinstance(text, str))
    if tools:
        yield as_javascript(tools)


def _quarter(count: int) -> int:
    return -(-count // 4)


def by_bytes_of(text: str) -> int:
    """Return the number of UTF-8 bytes of ``text`` divided by four, rounded up."""
    return _quarter(len(text) if text.isascii() else len(text.encode("utf-8", "replace")))


def ends_of(text: str, tokens: int) -> tuple[str, int, str]:
    """Return the beginning of ``text``, the number of tokens that are left out after it, and the end.

    Beginning and end together have ``tokens`` tokens, counted as in ``by_bytes_of``.
    """
    data, half = text.encode("utf-8", "replace"), tokens * 2
    start, end = data[:half].decode("utf-8", "ignore"), data[len(data) - half :].decode("utf-8", "ignore")
    return start, by_bytes_of(text) - tokens, end


def units(text: str) -> int:
    """Return the length of ``text`` in UTF-16 units, which is its length in JavaScript."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def as_javascript(value: Any) -> str:
    """Return ``value`` with the same number of characters as the output of ``JSON.stringify``."""
    match value:
        case bool() | None:
            return json.dumps(value)
        case str():
            return _text(value)
        case int() | float():
            return number(value)
        case dict():
            return "{" + ",".join(f"{_text(str(key))}:{as_javascript(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(as_javascript(item) for item in value) + "]"
    return "null"


def _text(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    if text.isascii():
        return written
    return "".join(f"\\u{ord(unit):04x}" if "\ud800" <= unit <= "\udfff" else unit for unit in written)


def number(value: float) -> str:
    """Return ``value`` as JavaScript writes it: all numbers are floats, and whole ones below 1e21 have no exponent."""
    try:
        value = float(value)
    except OverflowError:
        return "null"
    if not math.isfinite(value):
        return "null"
    if value == 0:
        return "0"
    digits, exponent = _shortest(abs(value))
    sign, point = "-" if value < 0 else "", exponent + 1
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{exponent:+d}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the fewest digits that represent ``value``, and the power of ten of the first digit."""
    mantissa, _, power = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = whole + fraction
    leading = len(digits) - len(digits.lstrip("0"))
    exponent = int(power or 0) + len(whole) - 1 - leading
    return digits.strip("0") or "0", exponent
