"""Conversion of a context to turns, which the module of each API converts to its own format.

In a turn, each tool call has exactly one result. A result without a call is left out. A call without a result gets a
placeholder. A failed or aborted answer is left out, because the model must answer again. Signatures and encrypted
reasoning from another model are left out (docs/reference/context.md, "Providers").
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from gitsession.codec.cbor import valid_text
from gitsession.context.call_results import match_results
from gitsession.context.profiles import profile
from gitsession.context.profiles.visible_items import is_message
from gitsession.context.provider_compactions import Replay, replay_of
from gitsession.context.providers.wire import CallIds, legal, model_blocks, sendable, shown
from gitsession.context.value import Context, Shown
from gitsession.dataclass import dataclass
from gitsession.model.blocks import File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message

NO_OUTPUT = "(no output)"
NO_RESULT = "(this call was not answered: its result is not known)"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderApi:
    """The properties of an API that determine the format of its requests.

    Attributes:
        providers: Names of providers that use the API. They identify the API of messages that do not name an API.
        apis: pi's names of the API.
        call_id_chars_max: Maximum length of the id of a call, in characters.
        tool_name_chars_max: Maximum length of the name of a tool, in characters.
        call_id: Function that returns the part of an agent's call id that the API uses.
        replays: Whether the API accepts compactions that the provider made.
        plain: Profiles of agents that send thinking without a signature back through the API, even if the provider of
            the message is not in ``providers``.
    """

    providers: frozenset[str]
    apis: frozenset[str]
    call_id_chars_max: int
    tool_name_chars_max: int
    call_id: Callable[[str], str] = str
    replays: bool = False
    plain: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CallWithResult:
    """A tool call with its result.

    Attributes:
        id: Id of the call, changed if the API would not accept it.
        name: Name of the tool, changed if the API would not accept it.
        given: The call as the agent recorded it.
        result: Blocks of the result.
        is_error: Whether the result is an error.
    """

    id: str
    name: str
    given: ToolCall
    result: tuple[Text | Image | File, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the conversation.

    Attributes:
        role: ``user``, ``assistant``, ``system`` or ``developer``.
        blocks: Content of the turn.
        own: Whether the model that receives the request wrote the turn.
        replay: A compaction by the provider, which replaces ``blocks``. The role is then ``assistant``.
    """

    role: str
    blocks: tuple[Text | Image | File | Thinking | CallWithResult, ...]
    own: bool = False
    replay: tuple[Mapping[str, Any], ...] = ()

    @property
    def calls(self) -> list[CallWithResult]:
        return [block for block in self.blocks if isinstance(block, CallWithResult)]


def turns(context: Context, api: ProviderApi) -> list[Turn]:
    """Return the turns of ``context`` in order, without the leading system messages, which ``prompt`` includes.

    No turn is empty. Each result is in the turn of its call.
    """
    after_opening = (item.entry for item in context.items[len(_opening(context)) :])
    entries = [entry for entry in after_opening if not (isinstance(entry, Message) and entry.failed)]
    answers = {call: entries[at] for at, call in match_results(entries).items()}
    ids = CallIds(api.call_id_chars_max)
    rules = profile(context.profile)
    found = []
    for at, entry in enumerate(entries):
        if isinstance(entry, Message) and entry.role == "assistant":
            own = is_own(entry, context, api)
            numbers = itertools.count()
            blocks = [
                _call(block, answers.get((at, next(numbers))), ids, api) if isinstance(block, ToolCall) else block
                for block in model_blocks(entry.content, own=own)
            ]
            found.append(Turn("assistant", tuple(blocks), own))
        elif kept := _replayed(entry, context, api):
            found.append(Turn("assistant", (), own=True, replay=kept.items))
        else:
            found.extend(_message_turns(entry, rules.llm_role(entry)))
    return [turn for turn in found if turn.blocks or turn.replay]


def model_of(context: Context, api: ProviderApi) -> str | None:
    """Return the name of the current model for a request; ``None`` if the model is not used through ``api``."""
    provider, _, model = (context.model or "").partition("/")
    return model if model and _is_of_api(provider, context, api) else None


def _is_of_api(provider: str, context: Context, api: ProviderApi) -> bool:
    return provider in api.providers or any(is_own(item.entry, context, api) for item in context.items)


def _replayed(entry: Entry, context: Context, api: ProviderApi) -> Replay | None:
    """Return the provider's compaction in ``entry`` if the current provider made it; otherwise ``None``.

    If the current provider is unknown, a compaction by any provider of ``api`` is returned. Other providers receive the
    summary of the compaction.
    """
    kept = replay_of(entry) if api.replays and isinstance(entry, Compaction) else None
    in_force = (context.model or "").partition("/")[0]
    is_current = (
        kept is not None and kept.provider == (in_force or kept.provider) and _is_of_api(kept.provider, context, api)
    )
    return kept if is_current else None


def is_own(entry: Entry, context: Context, api: ProviderApi) -> bool:
    """Return whether the current model wrote ``entry`` through ``api``.

    Signatures in an entry are valid only in this case.
    """
    if not isinstance(entry, Message) or entry.role != "assistant":
        return False
    if f"{entry.provider}/{entry.model}" != context.model:
        return False
    api_name = entry.extra.get("api")
    if isinstance(api_name, str):
        return api_name in api.apis
    return entry.provider in api.providers or (context.profile in api.plain and _thinks_plainly(entry))


def _thinks_plainly(entry: Message) -> bool:
    thoughts = [block for block in entry.content if isinstance(block, Thinking)]
    return bool(thoughts) and not any(block.signature or block.redacted for block in thoughts)


def _call(call: ToolCall, answer: Entry | None, ids: CallIds, api: ProviderApi) -> CallWithResult:
    result = CallWithResult(ids.take(api.call_id(call.id)), legal(call.name, api.tool_name_chars_max), call)
    if not isinstance(answer, Message):
        return replace(result, result=(Text(NO_RESULT),), is_error=True)
    return replace(result, result=shown(answer.content) or (Text(NO_OUTPUT),), is_error=answer.is_error)


def _message_turns(entry: Shown, role: str | None) -> Iterable[Turn]:
    """Yield the turn of an entry that neither the model nor a tool wrote.

    ``role``: its role by the rules of the profile.
    """
    if role not in ("user", "system", "developer"):
        return
    if isinstance(entry, CustomMessage) or (isinstance(entry, Message) and entry.role != "shell"):
        blocks = tuple(shown(entry.content))
    else:
        text = user_text(entry)
        blocks = (Text(valid_text(text)),) if text else ()
    only_words = all(isinstance(block, Text) for block in blocks)
    yield Turn(role if only_words else "user", blocks)


_EARLIER = "What happened before this point in the conversation, in summary:"
_ELSEWHERE = "What was tried on another branch of this conversation, in summary:"


def user_text(entry: Compaction | BranchSummary | Message) -> str:
    """Return the text that is sent for a summary or a shell command; "" if the summary is empty."""
    if isinstance(entry, Message):
        return _shell(entry)
    if not entry.summary.strip():
        return ""
    head = _EARLIER if isinstance(entry, Compaction) else _ELSEWHERE
    return f"{head}\n\n<summary>\n{entry.summary.replace('</summary>', '< /summary>')}\n</summary>"


def _shell(entry: Message) -> str:
    lines = [f"The user ran this:\n```\n{entry.command or ''}\n```"]
    lines.append(f"It printed:\n```\n{entry.output}\n```" if entry.output else "It printed nothing.")
    if entry.extra.get("cancelled") is True:
        lines.append("The user stopped it.")
    elif entry.exit_code:
        lines.append(f"Its exit code was {entry.exit_code}.")
    return "\n".join(lines)


# The part before the conversation: the system prompt, and the tools whose definitions the session contains.

_SCHEMA_NAMES = ("parameters", "input_schema", "inputSchema")


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool definition. ``schema``: JSON Schema of its arguments, with the type ``object``."""

    name: str
    description: str
    schema: dict[str, Any]


def prompt(context: Context, system: str | None) -> str:
    """Return the system prompt, followed by the named sections of the session's system messages.

    The system prompt is ``system`` if it is not ``None``. Otherwise, it consists of the system prompt of the session
    and its leading system messages. Later system messages are turns.
    """
    system_prompt = context.instructions.system_prompt if context.instructions else None
    first = [system_prompt or "", *(message.text for message in _opening(context))] if system is None else [system]
    return valid_text("\n\n".join(part for part in [*first, *_sections(context)] if part.strip()))


def tools(context: Context, api: ProviderApi) -> list[Tool]:
    """Return the current tools whose definitions the session contains, with names that ``api`` accepts."""
    recorded = context.instructions.tools if context.instructions else None
    known = {tool.name: tool for tool in _tools(recorded)}
    for message in _system_messages(context):
        for removed in _list(message.extra.get("toolsRemoved")):
            if isinstance(removed, Mapping):
                known.pop(str(removed.get("name")), None)
        known |= {tool.name: tool for tool in _tools(message.extra.get("toolsAdded"))}
    current = (tool for tool in known.values() if context.tools is None or tool.name in context.tools)
    return [replace(tool, name=legal(tool.name, api.tool_name_chars_max)) for tool in current]


def _opening(context: Context) -> list[Message]:
    """Return the leading system messages, if the model receives them."""
    count = next((n for n, entry in enumerate(context.messages) if not is_message(entry, "system")), None)
    return _system_messages(context)[:count]


def _system_messages(context: Context) -> list[Message]:
    """Return the session's system messages, if the model receives them. Older agents do not send them."""
    if profile(context.profile).llm_role(Message(role="system")) != "system":
        return []
    return [entry for entry in context.messages if is_message(entry, "system")]


def _sections(context: Context) -> Iterable[str]:
    """Return the named sections of the system messages. A later message can replace or remove sections."""
    known: dict[str, Any] = {}
    for message in _system_messages(context):
        sections = message.extra.get("sections")
        known |= sections if isinstance(sections, Mapping) else {}
    return [text for text in known.values() if isinstance(text, str)]


def _tools(recorded: Any) -> Iterable[Tool]:
    for tool in _list(recorded):
        if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
            tool = tool["function"]
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            continue  # omp records only the names of tools
        schema = next((tool[name] for name in _SCHEMA_NAMES if isinstance(tool.get(name), Mapping)), None)
        if schema is not None:
            description = tool.get("description")
            text = valid_text(description) if isinstance(description, str) else ""
            # The arguments of a tool cannot have another type.
            yield Tool(tool["name"], text, {**sendable(schema), "type": "object"})


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
