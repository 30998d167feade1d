"""The conversation as every provider asks for it: turns, with each tool call beside the one result it has.

What the three APIs have in common is decided here; how each spells it, in the module of its name. An orphaned result
is left out, a call without a result gets one that says so, a failed or aborted answer is not replayed (the model is to
answer again), and what belongs to another model's hidden state stays behind (docs/reference/context.md, "Providers").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gitsession.codec.cbor import whole
from gitsession.context.profiles import profile
from gitsession.context.provider_compactions import Replay, replay_of
from gitsession.context.providers.wire import CallIds, legal, sendable, shown, uttered
from gitsession.context.value import Context, Shown
from gitsession.model.blocks import File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, CustomMessage, Entry, Message

NO_OUTPUT = "(no output)"
NO_RESULT = "(this call was not answered: its result is not known)"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderApi:
    """What has to be known of an API before its requests are written.

    ``providers``: the names of providers that speak it, for messages that do not say more; ``apis``: what pi calls it.
    ``call_id``: the part of an agent's id of a call that this API knows it by. ``replays``: whether a compaction that
    the provider made can go back through it. ``plain``: profiles of agents that send thoughts without a signature back
    through it, whoever the provider is.
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
    """A tool call under the ``id`` and ``name`` that the API takes, with its result. ``given``: as its writer wrote."""

    id: str
    name: str
    given: ToolCall
    result: tuple[Text | Image | File, ...] = ()
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """``role``: user, assistant, system or developer. ``own``: said by the model that the request is for.

    ``replay``: the provider's own compaction, in place of blocks; such a turn is an assistant's.
    """

    role: str
    blocks: tuple[Text | Image | File | Thinking | CallWithResult, ...]
    own: bool = False
    replay: tuple[Mapping[str, Any], ...] = ()

    @property
    def calls(self) -> list[CallWithResult]:
        return [block for block in self.blocks if isinstance(block, CallWithResult)]


def turns(context: Context, api: ProviderApi, *, skip: int = 0) -> list[Turn]:
    """The items of ``context`` but the first ``skip``: in order, none empty, results in the turn of their calls."""
    entries = [item.entry for item in context.items[skip:] if not _failed(item.entry)]
    answers = _answers(entries)
    ids = CallIds(api.call_id_chars_max)
    rules = profile(context.profile)
    found = []
    for at, entry in enumerate(entries):
        if isinstance(entry, Message) and entry.role == "assistant":
            own = is_own(entry, context, api)
            results = iter(answers[at])
            blocks = [
                _call(block, next(results), ids, api) if isinstance(block, ToolCall) else block
                for block in uttered(entry.content, own=own)
            ]
            found.append(Turn("assistant", tuple(blocks), own))
        elif kept := _replayed(entry, context, api):
            found.append(Turn("assistant", (), own=True, replay=kept.items))
        else:
            found.extend(_heard(entry, rules.llm_role(entry)))
    return [turn for turn in found if turn.blocks or turn.replay]


def model_of(context: Context, api: ProviderApi) -> str | None:
    """The model's name for the request, if the model in force is spoken to through ``api``."""
    provider, _, model = (context.model or "").partition("/")
    return model if model and _speaks(provider, context, api) else None


def _speaks(provider: str, context: Context, api: ProviderApi) -> bool:
    return provider in api.providers or any(is_own(item.entry, context, api) for item in context.items)


def _replayed(entry: Entry, context: Context, api: ProviderApi) -> Replay | None:
    """The compaction of the provider in force, or of the only one that is known. Others read its summary."""
    kept = replay_of(entry) if api.replays and isinstance(entry, Compaction) else None
    in_force = (context.model or "").partition("/")[0]
    mine = kept is not None and kept.provider == (in_force or kept.provider) and _speaks(kept.provider, context, api)
    return kept if mine else None


def is_own(entry: Entry, context: Context, api: ProviderApi) -> bool:
    """Whether the model in force wrote ``entry``, through ``api``: only then do its signatures hold."""
    if not isinstance(entry, Message) or entry.role != "assistant":
        return False
    if f"{entry.provider}/{entry.model}" != context.model:
        return False
    stated = entry.extra.get("api")
    if isinstance(stated, str):
        return stated in api.apis
    return entry.provider in api.providers or (context.profile in api.plain and _thinks_plainly(entry))


def _thinks_plainly(entry: Message) -> bool:
    thoughts = [block for block in entry.content if isinstance(block, Thinking)]
    return bool(thoughts) and not any(block.signature or block.redacted for block in thoughts)


def _failed(entry: Entry) -> bool:
    return isinstance(entry, Message) and entry.failed


def _answers(entries: Sequence[Entry]) -> dict[int, list[Message | None]]:
    """For each assistant message, by its place among ``entries``, the results of its calls in order.

    A result belongs to the newest unanswered call with its id, since an agent may use an id twice; the first one that
    comes for a call is its result.
    """
    waiting: dict[str | None, list[tuple[int, int]]] = {}
    answers: dict[int, list[Message | None]] = {}
    for at, entry in enumerate(entries):
        if not isinstance(entry, Message):
            continue
        if entry.role == "assistant":
            calls = [block for block in entry.content if isinstance(block, ToolCall)]
            answers[at] = [None] * len(calls)
            for nth in reversed(range(len(calls))):
                waiting.setdefault(calls[nth].id, []).append((at, nth))
        elif entry.role == "tool" and waiting.get(entry.tool_call_id):
            asked, nth = waiting[entry.tool_call_id].pop()
            answers[asked][nth] = entry
    return answers


def _call(call: ToolCall, answer: Message | None, ids: CallIds, api: ProviderApi) -> CallWithResult:
    made = CallWithResult(ids.take(api.call_id(call.id)), legal(call.name, api.tool_name_chars_max), call)
    if answer is None:
        return replace(made, result=(Text(NO_RESULT),), is_error=True)
    return replace(made, result=shown(answer.content) or (Text(NO_OUTPUT),), is_error=answer.is_error)


def _heard(entry: Shown, role: str | None) -> Iterable[Turn]:
    """What the model hears from others than tools. ``role``: as whose words, by the rules of the profile."""
    if role not in ("user", "system", "developer"):
        return
    if isinstance(entry, CustomMessage) or (isinstance(entry, Message) and entry.role != "shell"):
        blocks = tuple(shown(entry.content))
    else:
        text = user_text(entry)
        blocks = (Text(whole(text)),) if text else ()
    only_words = all(isinstance(block, Text) for block in blocks)
    yield Turn(role if only_words else "user", blocks)


_EARLIER = "What happened before this point in the conversation, in summary:"
_ELSEWHERE = "What was tried on another branch of this conversation, in summary:"


def user_text(entry: Compaction | BranchSummary | Message) -> str:
    """The words for a summary or a shell command; empty where there is nothing to say."""
    if isinstance(entry, Message):
        return _shell(entry)
    if not entry.summary.strip():
        return ""
    head = _EARLIER if isinstance(entry, Compaction) else _ELSEWHERE
    return f"{head}\n\n<summary>\n{entry.summary.replace('</summary>', '< /summary>')}\n</summary>"


def _shell(entry: Message) -> str:
    said = [f"The user ran this:\n```\n{entry.command or ''}\n```"]
    said.append(f"It printed:\n```\n{entry.output}\n```" if entry.output else "It printed nothing.")
    if entry.extra.get("cancelled") is True:
        said.append("The user stopped it.")
    elif entry.exit_code:
        said.append(f"Its exit code was {entry.exit_code}.")
    return "\n".join(said)


# What stands before a conversation: the system prompt, and the tools whose definitions the session holds.

_SCHEMA_NAMES = ("parameters", "input_schema", "inputSchema")


@dataclass(frozen=True, slots=True)
class Tool:
    """``schema``: JSON Schema of its arguments, an object's."""

    name: str
    description: str
    schema: dict[str, Any]


def prompt(context: Context, system: str | None) -> str:
    """The system prompt: ``system``, or what the session states; then the sections that its messages name.

    The messages of role ``system`` themselves are turns (``opening`` says how many of them belong here).
    """
    stated = context.instructions.system_prompt if context.instructions else None
    first = [stated or "", *(message.text for message in _opening(context))] if system is None else [system]
    return whole("\n\n".join(part for part in [*first, *_sections(context)] if part.strip()))


def opening(context: Context) -> int:
    """Return the number of leading items that are system messages, which ``prompt`` sends."""
    return len(_opening(context))


def tools(context: Context) -> list[Tool]:
    """The tools in force, as far as the session says how they are called."""
    stated = context.instructions.tools if context.instructions else None
    known = {tool.name: tool for tool in _tools(stated)}
    for message in _system_messages(context):
        for gone in _list(message.extra.get("toolsRemoved")):
            if isinstance(gone, Mapping):
                known.pop(str(gone.get("name")), None)
        known |= {tool.name: tool for tool in _tools(message.extra.get("toolsAdded"))}
    return [tool for tool in known.values() if context.tools is None or tool.name in context.tools]


def _opening(context: Context) -> list[Message]:
    found = []
    for item in context.items:
        if not (isinstance(item.entry, Message) and item.entry.role == "system"):
            break
        found.append(item.entry)
    return found if _hears_system(context) else []


def _hears_system(context: Context) -> bool:
    """Return whether system messages of the session go to the model: older agents leave them out."""
    return profile(context.profile).llm_role(Message(role="system")) == "system"


def _system_messages(context: Context) -> list[Message]:
    entries = [item.entry for item in context.items] if _hears_system(context) else []
    return [entry for entry in entries if isinstance(entry, Message) and entry.role == "system"]


def _sections(context: Context) -> Iterable[str]:
    """Named parts of the prompt: a later message replaces one by name, or takes it away."""
    known: dict[str, Any] = {}
    for message in _system_messages(context):
        sections = message.extra.get("sections")
        known |= sections if isinstance(sections, Mapping) else {}
    return [text for text in known.values() if isinstance(text, str)]


def _tools(stated: Any) -> Iterable[Tool]:
    for tool in _list(stated):
        if isinstance(tool, Mapping) and isinstance(tool.get("function"), Mapping):
            tool = tool["function"]
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            continue  # omp names them only
        schema = next((tool[name] for name in _SCHEMA_NAMES if isinstance(tool.get(name), Mapping)), None)
        if schema is not None:
            description = tool.get("description")
            yield Tool(tool["name"], whole(description) if isinstance(description, str) else "", _object(schema))


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``schema`` as one of an object, which is all that the arguments of a tool can be."""
    return {**sendable(schema), "type": "object"}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
