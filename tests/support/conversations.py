"""Random conversations of every agent, and one rule for their export to another agent.

**The model of the target receives everything that the model of the source receives, or a note names the difference.**
Every text, call, result, image and file contains a unique mark. Two contexts are compared by their marks, in order. The
target's file is read with the rules of the target (``context/profiles``). Other tests compare these rules with the real
programs.

``python tests/support/conversations.py [COUNT]`` runs the matrix and writes it into docs/reference/agents.md.
"""

from __future__ import annotations

import json
import random
import re
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import aider_files
import claude_code
import codex_files
import opencode_files
from builders import bring, dumps, entry, joined, pi_file
from places import ROOT

from gitsession.context.history import ContextHistory
from gitsession.context.profiles import Profile, of_agent, profile
from gitsession.context.value import Item
from gitsession.exporting.export_session import ExportResult, export
from gitsession.model.blocks import Block, File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, Compaction, Message
from gitsession.sessions import graph
from gitsession.sessions.active_branch import active
from gitsession.store.memory import MemoryStore

SOURCES = ("aider", "claude", "codex", "librecode", "omp", "opencode", "pi")
TARGETS = ("aider", "claude", "codex", "omp", "opencode", "pi")
STEPS_MAX = 9

Fields = dict[str, Any]


class Author:
    """A source of random choices and of marks. A mark is a unique word that starts with its kind."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.count = 0
        self.calls = 0

    def mark(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}."

    def data(self, kind: str) -> str:
        return b64encode(self.mark(kind).encode()).decode()

    def call(self) -> str:
        self.calls += 1
        return f"call_{self.calls}"

    def often(self) -> bool:
        return self.chance.random() < 0.5

    def seldom(self) -> bool:
        return self.chance.random() < 0.15

    def steps(self, *kinds: Callable[[], Iterable[Any]]) -> list[Any]:
        """Return the items of a random sequence of ``kinds``. It starts with the first kind."""
        drawn = [kinds[0], *self.chance.choices(kinds, k=self.chance.randint(1, STEPS_MAX))]
        return [made for kind in drawn for made in kind()]

    def results(self, calls: Sequence[str]) -> list[str]:
        """Return a random selection of ``calls`` in random order: the calls that have a result."""
        found = [call for call in calls if not self.seldom()]
        self.chance.shuffle(found)
        return found

    def asked(self) -> list[str]:
        return [self.call() for _ in range(self.chance.randint(1, 4))]


# Each agent's conversations


class _Pi:
    """Writer of sessions of pi and omp: a sequence of entries, sometimes with a second branch."""

    def __init__(self, seed: int, *, omp: bool) -> None:
        self.draw, self.omp = Author(seed), omp
        self.lines: list[bytes] = []
        self.ids: list[str] = []

    def file(self) -> bytes:
        kinds = [self.turn, self.turn, self.user, self.shell, self.note, self.compaction, self.failed, self.summary]
        self.draw.steps(*kinds, *([self.reset, self.developer] if self.omp else [self.edit, self.system]))
        return pi_file(*self.lines, **({"titleSource": "user"} if self.omp else {}))

    def put(self, type: str, **fields: Any) -> list[str]:
        parent = self.ids[-1] if self.ids else None
        if len(self.ids) > 2 and self.draw.chance.random() < 0.04:
            parent = self.ids[-2]
        self.ids.append(f"{len(self.ids) + 1:08x}")
        self.lines.append(entry(type, self.ids[-1], parent, len(self.ids), **fields))
        return self.ids[-1:]

    def said(self, role: str, content: Any, **fields: Any) -> list[str]:
        return self.put("message", message={"role": role, "content": content, "timestamp": 1, **fields})

    def text(self, kind: str) -> Fields:
        return {"type": "text", "text": self.draw.mark(kind)}

    def picture(self) -> list[Fields]:
        return [{"type": "image", "data": self.draw.data("pic"), "mimeType": "image/png"}] if self.draw.seldom() else []

    def user(self) -> list[str]:
        return self.said("user", [self.text("ask"), *self.picture()])

    def answer(self, *blocks: Fields, stop: str = "stop") -> list[str]:
        usage = {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2, "cost": {"total": 0}}
        by = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-8", "usage": usage}
        return self.said("assistant", list(blocks), stopReason=stop, **by)

    def turn(self) -> list[str]:
        thought = {"type": "thinking", "thinking": self.draw.mark("thought"), "thinkingSignature": "sig"}
        calls = self.draw.asked()
        spoken = [
            {"type": "toolCall", "id": call, "name": "bash", "arguments": {"command": self.draw.mark("call")}}
            for call in calls
        ]
        made = self.answer(*([thought] if self.draw.often() else []), self.text("said"), *spoken, stop="toolUse")
        for call in self.draw.results(calls):
            content, failed = [self.text("gave"), *self.picture()], self.draw.seldom()
            made += self.said("toolResult", content, toolCallId=call, toolName="bash", isError=failed)
            made += self.user() if self.draw.seldom() else []
        return [*made, *(self.answer(self.text("said")) if self.draw.often() else [])]

    def failed(self) -> list[str]:
        call = {"type": "toolCall", "id": self.draw.call(), "name": "bash", "arguments": {"x": self.draw.mark("call")}}
        return self.answer(self.text("said"), call, stop=self.draw.chance.choice(["error", "aborted"]))

    def shell(self) -> list[str]:
        hidden = {"excludeFromContext": True} if self.draw.often() else {}
        said = {"role": "bashExecution", "command": self.draw.mark("shell"), "output": self.draw.mark("gave")}
        return self.put("message", message={**said, "exitCode": 0, "timestamp": 1, **hidden})

    def note(self) -> list[str]:
        return self.put("custom_message", customType="x", content=self.draw.mark("note"), display=True)

    def summary(self) -> list[str]:
        return self.put("branch_summary", fromId="root", summary=self.draw.mark("sum"))

    def compaction(self) -> list[str]:
        kept = self.draw.chance.choice([*self.ids[-6:], "nowhere"])
        return self.put("compaction", summary=self.draw.mark("sum"), firstKeptEntryId=kept, tokensBefore=9)

    def edit(self) -> list[str]:
        new = self.draw.chance.choice([None, {"content": [self.text("new")]}])
        return self.put("context_edit", targetId=self.draw.chance.choice(self.ids[-6:] or ["x"]), replacement=new)

    def system(self) -> list[str]:
        return self.said("system", self.draw.mark("sys"))

    def developer(self) -> list[str]:
        return self.said("developer", [self.text("dev")])

    def reset(self) -> list[str]:
        return self.put("reset_boundary") if self.draw.seldom() else []


class _Claude:
    """Writer of sessions of Claude Code: a line for each block of an answer, with results in random order."""

    def __init__(self, seed: int) -> None:
        self.draw = Author(seed)
        self.lines: list[bytes] = [*claude_code.asked()]
        self.ids: list[str] = []
        self.kept: list[str] = []

    def file(self) -> bytes:
        self.draw.steps(self.user, self.turn, self.turn, self.shell, self.searched, self.compaction, self.odd)
        return joined(*self.lines, claude_code.last_prompt(self.ids[-1]))

    def next(self) -> tuple[str, str | None, int]:
        above = self.ids[-1] if self.ids else None
        self.ids.append(f"n{len(self.ids) + 1}")
        self.kept.append(self.ids[-1])
        return self.ids[-1], above, len(self.ids)

    def user(self, content: Any = None, **fields: Any) -> list[str]:
        id, above, at = self.next()
        blocks = [{"type": "text", "text": self.draw.mark("ask")}, *self.seen()]
        self.lines.append(claude_code.user(id, above, content or blocks, at, **fields))
        return [id]

    def seen(self) -> list[Fields]:
        """Return an image, a document, both or, most often, neither."""
        found = []
        for type, kind, mime in (("image", "pic", "image/png"), ("document", "pdf", "application/pdf")):
            if self.draw.seldom():
                source = {"type": "base64", "media_type": mime, "data": self.draw.data(kind)}
                found.append({"type": type, "source": source})
        return found

    def answer(self, *blocks: Fields) -> list[str]:
        made, first = [], len(self.ids)
        for block in blocks:
            id, above, at = self.next()
            self.lines.append(claude_code.assistant(id, above, block, answer=f"msg_{first}", at=at))
            made.append(id)
        return made

    def turn(self) -> list[str]:
        thought = {"type": "thinking", "thinking": self.draw.mark("thought"), "signature": "sig"}
        sealed = {"type": "redacted_thinking", "data": self.draw.mark("sealed")}
        said = {"type": "text", "text": self.draw.mark("said")}
        calls = self.draw.asked()
        asked = [claude_code.call(call, command=self.draw.mark("call")) for call in calls]
        before = [self.draw.chance.choice([thought, sealed])] if self.draw.often() else []
        made = self.answer(*before, said, *asked)
        for call in self.draw.results(calls):
            content = [{"type": "text", "text": self.draw.mark("gave")}, *self.seen()]
            result = {"type": "tool_result", "tool_use_id": call, "content": content}
            words = [{"type": "text", "text": self.draw.mark("ask")}] if self.draw.seldom() else []
            made += self.user([result | ({"is_error": True} if self.draw.seldom() else {}), *words])
        return [*made, *(self.answer({"type": "text", "text": self.draw.mark("said")}) if self.draw.often() else [])]

    def searched(self) -> list[str]:
        query = {"query": self.draw.mark("other")}
        asked = {"type": "server_tool_use", "id": "srv", "name": "web_search", "input": query}
        found = {"type": "web_search_result", "title": self.draw.mark("other"), "encrypted_content": "e"}
        gave = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [found]}
        return self.answer(asked, gave, {"type": "text", "text": self.draw.mark("said")})

    def odd(self) -> list[str]:
        block = {"type": "later_kind", "words": self.draw.mark("other")}
        return self.user([block]) if self.draw.often() else self.answer(block)

    def shell(self) -> list[str]:
        made = self.user(f"<bash-input>{self.draw.mark('shell')}</bash-input>")
        return [*made, *self.user(f"<bash-stdout>{self.draw.mark('gave')}</bash-stdout><bash-stderr></bash-stderr>")]

    def compaction(self) -> list[str]:
        if not self.kept:
            return []
        keeps = tuple(self.kept[-self.draw.chance.randint(1, 3) :]) if self.draw.often() else ()
        id, above, at = self.next()
        self.lines.append(claude_code.boundary(id, above, at, keeps=keeps))
        self.lines.append(claude_code.summary(id, self.draw.mark("sum"), at=at))
        self.ids[-1], self.kept = f"s{id}", []
        return [id]


class _Codex:
    """Writer of rollouts of codex: items in the order of arrival, with results between the calls of an answer."""

    def __init__(self, seed: int) -> None:
        self.draw = Author(seed)
        self.items: list[Fields] = []

    def file(self) -> bytes:
        self.draw.steps(self.user, self.turn, self.turn, self.searched, self.made, self.compaction, self.developer)
        return codex_files.rollout(self.lines)

    @property
    def lines(self) -> list[Fields]:
        return [{"type": "compacted" if "message" in item else "response_item", "payload": item} for item in self.items]

    def put(self, **item: Any) -> list[Fields]:
        self.items.append(item)
        return [item]

    def said(self, role: str, kind: str) -> Fields:
        return codex_files.message(role, self.draw.mark(kind))

    def user(self) -> list[Fields]:
        item = self.said("user", "ask")
        if self.draw.seldom():
            url = f"data:image/png;base64,{self.draw.data('pic')}"
            item["content"].append({"type": "input_image", "image_url": url})
        return self.put(**item)

    def developer(self) -> list[Fields]:
        return self.put(**self.said("developer", "dev"))

    def turn(self) -> list[Fields]:
        if self.draw.often():
            summary = [{"type": "summary_text", "text": self.draw.mark("thought")}]
            self.put(type="reasoning", id="rs", summary=summary, encrypted_content="x")
        if self.draw.often():
            self.put(**self.said("assistant", "said"))
        calls = self.draw.asked()
        waiting = self.draw.results(calls)
        for call in calls:
            self.put(**self.draw.chance.choice([self.function, self.custom, self.local])(call))
            if waiting and call in waiting and self.draw.seldom():
                waiting.remove(call)
                self.put(**self.output(call))
        for call in waiting:
            self.put(**self.output(call))
        return self.put(**self.said("assistant", "said")) if self.draw.often() else []

    def function(self, call: str) -> Fields:
        arguments = json.dumps({"cmd": self.draw.mark("call")})
        return {"type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": call}

    def custom(self, call: str) -> Fields:
        return {"type": "custom_tool_call", "name": "apply_patch", "input": self.draw.mark("call"), "call_id": call}

    def local(self, call: str) -> Fields:
        action = {"type": "exec", "command": [self.draw.mark("call")]}
        return {"type": "local_shell_call", "call_id": call, "status": "completed", "action": action}

    def output(self, call: str) -> Fields:
        kind = next(item["type"] for item in self.items if item.get("call_id") == call)
        name = "custom_tool_call_output" if kind == "custom_tool_call" else "function_call_output"
        said: Any = self.draw.mark("gave")
        if self.draw.seldom():
            url = f"data:image/png;base64,{self.draw.data('pic')}"
            said = [{"type": "input_text", "text": said}, {"type": "input_image", "image_url": url}]
        return {"type": name, "call_id": call, "output": said}

    def searched(self) -> list[Fields]:
        action = {"type": "search", "query": self.draw.mark("other")}
        self.put(type="web_search_call", status="completed", action=action)
        return self.put(**self.said("assistant", "said"))

    def made(self) -> list[Fields]:
        return self.put(type="image_generation_call", id="ig", status="completed", result=self.draw.mark("sealed"))

    def compaction(self) -> list[Fields]:
        users = [item for item in self.items if item.get("role") == "user"][-3:]
        summary = self.draw.mark("sum")
        match self.draw.chance.randint(0, 2):
            case 0:  # before codex kept the replacement history
                return self.put(message=summary)
            case 1:
                told = {**codex_files.message("user", summary)}
                return self.put(message=summary, replacement_history=[*users, told])
        sealed = {"type": "compaction", "encrypted_content": self.draw.mark("sealed")}
        kept = [item for item in self.items if item.get("role")][-4:]
        return self.put(message="", replacement_history=[*kept, sealed])


class _Opencode:
    """Writer of sessions of opencode: results are stored with the calls, and a call can be pending or failed."""

    def __init__(self, seed: int) -> None:
        self.draw = Author(seed)
        self.messages: list[Fields] = []

    def file(self) -> bytes:
        self.draw.steps(self.user, self.turn, self.turn, self.compaction)
        return opencode_files.export(self.messages, opencode_files.info(title="Drawn", path=""))

    def id(self, who: str) -> str:
        return f"msg_{len(self.messages):04}{who}"

    def file_part(self, kind: str, mime: str) -> Fields:
        return {"type": "file", "mime": mime, "filename": "a", "url": f"data:{mime};base64,{self.draw.data(kind)}"}

    def user(self) -> list[str]:
        found = [self.file_part("pic", "image/png")] if self.draw.seldom() else []
        found += [self.file_part("pdf", "application/pdf")] if self.draw.seldom() else []
        at = len(self.messages)
        self.messages.append(opencode_files.user(self.id("u"), self.draw.mark("ask"), at=at, parts=found))
        return []

    def turn(self) -> list[str]:
        parts: list[Fields] = [{"type": "step-start"}]
        if self.draw.often():
            parts.append({"type": "reasoning", "text": self.draw.mark("thought"), "time": {"start": 1, "end": 2}})
        parts.append({"type": "text", "text": self.draw.mark("said")})
        for call in self.draw.asked():
            given = {"command": self.draw.mark("call")}
            if self.draw.seldom():
                state = {"status": "running", "input": given, "time": {"start": 1}}
                parts.append({"type": "tool", "tool": "bash", "callID": call, "state": state})
                continue
            attached = {"attachments": [self.file_part("pic", "image/png")]} if self.draw.seldom() else {}
            part = opencode_files.tool(call, self.draw.mark("gave"), input=given, **attached)
            if self.draw.seldom():
                failed = {"status": "error", "input": given, "error": self.draw.mark("gave")}
                part["state"] = {**failed, "time": part["state"]["time"]}
            parts.append(part)
        parts.append({"type": "step-finish", "reason": "tool-calls", "cost": 0, "tokens": {"input": 1, "output": 1}})
        if self.draw.often():
            parts += [{"type": "step-start"}, {"type": "text", "text": self.draw.mark("said")}]
        self.messages.append(opencode_files.answer(self.id("a"), at=len(self.messages), parts=parts))
        return []

    def compaction(self) -> list[str]:
        if not self.messages:
            return []
        tail = self.draw.chance.choice([None, *(each["info"]["id"] for each in self.messages[-2:])])
        asked, summary, at = self.id("c"), f"{self.id('c')}s", len(self.messages)
        self.messages += opencode_files.compaction(asked, summary, self.draw.mark("sum"), at=at, tail=tail)
        return []


def _of_aider(seed: int) -> bytes:
    draw = Author(seed)
    kinds = [
        lambda: [aider_files.user(draw.mark("ask"))],
        lambda: [aider_files.user(draw.mark("ask")), aider_files.answer(draw.mark("said"))],
        lambda: [aider_files.edited("a.py", "abc1234 " + draw.mark("note"))],
        lambda: [aider_files.restored()] if draw.seldom() else [aider_files.run()] if draw.seldom() else [],
    ]
    return aider_files.history(aider_files.run(), *draw.steps(*kinds))


def _of_librecode(seed: int) -> bytes:
    draw = Author(seed)
    by = {"provider": "mock", "model": "m"}
    rows: list[Fields] = []

    def row(type: str = "message", **fields: Any) -> list[Fields]:
        above = {"parent_id": rows[-1]["id"]} if rows else {}
        when = {"created_at": "2026-02-01T00:00:00Z"}
        rows.append({"id": f"r{len(rows)}", **above, "entry_type": type, **when, **fields})
        return rows[-1:]

    def user() -> list[Fields]:
        return row(role="user", content=draw.mark("ask"))

    def turn() -> list[Fields]:
        row(role="assistant", content=draw.mark("said"), **by)
        row(role="toolResult", content=draw.mark("gave"), tool_name="bash", tool_args_json="{}")
        return row(role="assistant", content=draw.mark("said"), **by)

    def compaction() -> list[Fields]:
        kept = {"compaction_first_kept_entry_id": rows[-1]["id"]} if rows and draw.often() else {}
        return row("compaction", summary=draw.mark("sum"), **kept)

    def note() -> list[Fields]:
        return row("custom_message", custom_type="x", content=draw.mark("note"))

    draw.steps(user, turn, turn, compaction, note)
    head = {"type": "session", "id": "s1", "cwd": "/work", "name": "Drawn", "created_at": "2026-02-01T00:00:00Z"}
    return joined(*map(dumps, (head, *rows)))


DRAWN: Mapping[str, Callable[[int], bytes]] = {
    "aider": _of_aider,
    "claude": lambda seed: _Claude(seed).file(),
    "codex": lambda seed: _Codex(seed).file(),
    "librecode": _of_librecode,
    "omp": lambda seed: _Pi(seed, omp=True).file(),
    "opencode": lambda seed: _Opencode(seed).file(),
    "pi": lambda seed: _Pi(seed, omp=False).file(),
}
NAMES = {"aider": "/work/.aider.chat.history", "claude": claude_code.SESSION, "codex": codex_files.NAME}


# What a model sees, by its marks


class Seen(NamedTuple):
    """A mark in a context.

    ``by`` is ``model`` for the model's own text, otherwise ``others``. ``call`` is the call to which the mark belongs.
    """

    by: str
    mark: str
    call: str = ""

    @property
    def kind(self) -> str:
        return self.mark.partition("-")[0]


def seen(rules: Profile, items: Sequence[Item]) -> list[Seen]:
    """Return the marks of a context in order. The marks of a result follow those of its call."""
    found: list[Seen] = []
    results: dict[str, list[Seen]] = {}
    for said in (item.entry for item in items):
        if rules.llm_role(said) is None or (isinstance(said, Message) and said.failed):
            continue
        if isinstance(said, Compaction | BranchSummary):
            found += marks("others", said.summary)
        elif isinstance(said, Message) and said.role == "shell":
            found += marks("others", f"{said.command} {said.output}")
        elif isinstance(said, Message) and said.role == "tool":
            got = [each for block in said.content for each in _of_block("others", block)]
            results.setdefault(said.tool_call_id or "", []).extend(got)
        else:
            by = "model" if isinstance(said, Message) and said.role == "assistant" else "others"
            found += [each for block in said.content for each in _of_block(by, block)]
    whole: list[Seen] = []
    for each in found:
        whole.append(each._replace(call=""))
        whole += results.pop(each.call, []) if each.call else []
    return whole


def _of_block(by: str, block: Block) -> list[Seen]:
    match block:
        case Text():
            return marks(by, block.text)
        case Thinking():
            return marks(by, block.text or block.signature or "")
        case ToolCall():
            found = marks(by, json.dumps(dict(block.arguments)))
            return [*found[:-1], *(each._replace(call=block.id) for each in found[-1:])]
        case Image():
            return marks(by, block.data.decode("utf-8", "replace"))
        case File():
            return marks(by, f"{block.name} {(block.data or b'').decode('utf-8', 'replace')}")
        case OtherBlock():
            return marks(by, json.dumps(block.value))


def marks(by: str, text: str) -> list[Seen]:
    return [Seen(by, mark) for mark in re.findall(r"[a-z]+-\d+\.", text)]


def is_paired(items: Sequence[Item]) -> bool:
    """Return whether each result follows the answer with its call, as providers require."""
    open_calls: set[str | None] = set()
    follows = False  # an answer of several messages, as codex keeps one
    for said in (item.entry for item in items):
        if isinstance(said, Message) and said.role == "tool":
            if said.tool_call_id not in open_calls:
                return False
            open_calls.discard(said.tool_call_id)
        elif isinstance(said, Message) and said.role == "assistant":
            asked = {block.id for block in said.content if isinstance(block, ToolCall)}
            open_calls = asked | (open_calls if follows else set())
        else:
            open_calls = set()
        follows = isinstance(said, Message) and said.role == "assistant"
    return True


def context(store: MemoryStore, sid: str, agent: str) -> tuple[Profile, tuple[Item, ...]]:
    rules = profile(of_agent(agent))
    leaf = graph.branches(store, sid)[active(store, sid)]
    return rules, rules.select(ContextHistory(store, leaf)).items


# The rule


NAMED = {
    "thought": "reasoning|thinking",
    "sealed": "only their own provider|reasoning|thinking",
    "pic": "images",
    "pdf": "files|images",
    "call": "calls",
    "gave": "results",
    "sys": "system",
    "dev": "developer",
}
"""Patterns of notes that report an item missing from the target's context, by kind of mark."""


class Handed(NamedTuple):
    """The result of one export.

    ``shown`` is the number of marks in the source's context. ``named`` is the number of them that notes account for.
    ``wrong`` has the violations of the rule.
    """

    shown: int
    named: int
    wrong: list[str]


def hand_over(source: str, target: str, data: bytes) -> tuple[Handed, ExportResult]:
    """Export a session of ``source`` to ``target`` and check the rule on the target's context."""
    store, other = MemoryStore(), MemoryStore()
    sid = bring(store, data, agent=source, name=NAMES.get(source, "s1")).session
    sent = export(store, sid, target)
    theirs = seen(*context(store, sid, source))
    if not sent.data:  # the context is empty
        return compared(theirs, [], sent.notes, []), sent
    taken = bring(other, sent.data, agent=target, name=NAMES.get(target, "s1"), final=True).session
    rules, items = context(other, taken, target)
    wrong = [] if target == "aider" or is_paired(items) else ["results do not stand behind their calls"]
    return compared(theirs, seen(rules, items), sent.notes, wrong, in_words=target == "aider"), sent


def compared(
    source: Sequence[Seen],
    target: Sequence[Seen],
    notes: Mapping[str, int],
    wrong: list[str],
    *,
    in_words: bool = False,
) -> Handed:
    """Compare two contexts by their marks.

    Args:
        in_words: The target has no calls. Its results are compared in the order in which they came.
    """
    if not source and any("reset at the end" in note for note in notes):
        return Handed(0, 0, wrong)
    there, wanted = {each.mark for each in target}, {each.mark for each in source}
    gone = Counter(each.kind for each in source if each.mark not in there)
    for kind, count in gone.items():
        named = sum(times for note, times in notes.items() if re.search(NAMED.get(kind, "^$"), note))
        if named < count:
            wrong = [*wrong, f"{count} {kind} gone, {named} in notes"]
    wrong += [f"{each.mark} is shown to this model alone" for each in target if each.mark not in wanted]
    expected = [_spoken(each) for each in source if each.mark in there]
    found = [_spoken(each) for each in target if each.mark in wanted]
    if in_words:
        expected, found = _apart(expected), _apart(found)
    if expected != found and not wrong:
        pairs = enumerate(zip([*expected, None], [*found, None], strict=False))
        at = next(n for n, (ours, theirs) in pairs if ours != theirs)
        wrong = [f"at {at}: {expected[at : at + 3]}, and the target has {found[at : at + 3]}"]
    return Handed(len(source), sum(gone.values()), wrong)


def _spoken(each: Seen) -> tuple[str, str]:
    """Return the author and the mark. A summary has no author, because some agents keep it as an answer."""
    return ("" if each.kind == "sum" else each.by), each.mark


def _apart(marks: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    from_tools = {"gave", "pic", "pdf", "new"}
    rest = [each for each in marks if each[1].partition("-")[0] not in from_tools]
    return rest + sorted(each for each in marks if each[1].partition("-")[0] in from_tools)


# The matrix


class Cell(NamedTuple):
    """A cell of the matrix.

    ``marks`` is the number of marks in the contexts of ``conversations``. ``named`` is the number of marks that notes
    account for. ``broken`` is the number of conversations that violate the rule.
    """

    conversations: int
    marks: int
    named: int
    broken: int


def matrix(seeds: Iterable[int]) -> dict[tuple[str, str], Cell]:
    """Export a conversation of each source and each seed to each other agent."""
    found: dict[tuple[str, str], Cell] = {}
    for seed in seeds:
        for source in SOURCES:
            data = DRAWN[source](seed)
            for target in TARGETS:
                if source != target:
                    handed, _ = hand_over(source, target, data)
                    count, marks, named, broken = found.get((source, target), Cell(0, 0, 0, 0))
                    more = Cell(count + 1, marks + handed.shown, named + handed.named, broken + bool(handed.wrong))
                    found[source, target] = more
    return found


BEGIN, END = "<!-- hand-over -->", "<!-- /hand-over -->"


def table(cells: Mapping[tuple[str, str], Cell]) -> str:
    """Return the matrix for docs/reference/agents.md, with a digest that a test compares."""
    [count] = {cell.conversations for cell in cells.values()}
    shown = sum(cell.marks for cell in cells.values())
    broken = sum(cell.broken for cell in cells.values())
    lines = [
        f"{count} conversations of each agent, {sum(cell.conversations for cell in cells.values()):,} hand-overs,",
        f"{shown:,} things in sight; the rule was broken in {broken} hand-overs.",
        "",
        "| from \\ to | " + " | ".join(TARGETS) + " |",
        "|---" * (len(TARGETS) + 1) + "|",
    ]
    for source in SOURCES:
        row = [_cell(cells.get((source, target))) for target in TARGETS]
        lines.append(f"| **{source}** | " + " | ".join(row) + " |")
    text = "\n".join(lines)
    return f"{text}\n\n{SIGNED}{sha256(text.encode()).hexdigest()[:16]} -->"


def _cell(cell: Cell | None) -> str:
    if cell is None:
        return "its own file"
    return f"{cell.marks - cell.named:,} + {cell.named:,}" + (f", {cell.broken} broken" if cell.broken else "")


SIGNED = "<!-- written by tests/support/conversations.py: "


def between_marks(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0].strip()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    cells = matrix(range(count))
    page = ROOT / "docs/reference/agents.md"
    before, _, rest = page.read_text().partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table(cells)}\n{END}{rest.partition(END)[2]}")
    print(table(cells))
