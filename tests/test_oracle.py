"""Comparison of every ref and object id of about 300 generated sessions, some commands and sample files with a record.

A change that only moves code must pass it. ``tests/oracle.json`` has, for each group, the numbers of refs, objects and
exports, and the SHA-256 of each sorted list. The environment variable ``GITSESSION_ORACLE`` has these values:

- ``record``: write a new record (with one worker, because groups are written one after another);

- ``dump``: also write the lists to ``oracle.dump/<group>.txt``, so that two versions can be compared.

The record has only hashes of sample files. Groups whose sample files are missing are skipped.
"""

from __future__ import annotations

import dataclasses
import fcntl
import inspect
import json
import os
import random
import secrets
import shutil
import subprocess
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import claude_author
import claude_code
import codex_files
import conversations
import goldens
import opencode_files
import pytest
from builders import SHARED, bring, entry, joined, label, named, pi_file, said, slot, talk
from places import TESTS
from secret_shapes import a_token

import gitsession
from gitsession import Entry, GitSessionError, Message, Store
from gitsession.context import tokens

RECORD = TESTS / "oracle.json"
MODE = os.environ.get("GITSESSION_ORACLE", "")  # read here, because each test runs without the user's variables
DUMP = Path.cwd() / "oracle.dump"
START_NS = 1_769_904_000 * 10**9
WORKSPACE = Path("/tmp/gitsession-oracle")
"""Fixed for every TMPDIR, because a checkpoint contains the path of its workspace. A lock protects it."""

TARGETS = ("aider", "claude", "codex", "omp", "opencode", "pi", "librecode")
LARGE_BYTES = 1 << 20


# The clock and the random numbers


class Pinned:
    """A clock that is constant within a step, and random bytes that depend on the step and the number of the draw.

    Functions of the standard library are replaced, not names of the package, so code may move. Draws are counted for
    each size separately: temporary names are drawn too, and their number is not part of the format. The clock is in the
    past, so that no cache trusts the time stamp of a file.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps = 0
        self.drawn: dict[int, int] = {}
        monkeypatch.setattr(time, "time_ns", lambda: START_NS + self.steps * 10**9)
        monkeypatch.setattr(time, "time", lambda: time.time_ns() / 10**9)
        monkeypatch.setattr(os, "urandom", self.urandom)
        monkeypatch.setattr(secrets, "token_hex", self.token_hex)
        monkeypatch.setattr(tokens, "tokenizer", lambda: None)  # the extra `tokens` may be installed

    def step(self) -> None:
        self.steps += 1

    def urandom(self, size: int) -> bytes:
        self.drawn[size] = number = self.drawn.get(size, 0) + 1
        return sha256(f"{size} {number}".encode()).digest()[:size]

    def token_hex(self, size: int = 32) -> str:
        """Return the same token within a step, so that the group of a command does not depend on earlier draws."""
        return sha256(f"step {self.steps}".encode()).hexdigest()[: 2 * size]


# The record


Lines = tuple[list[str], list[str], list[str]]
"""Refs, objects and exports, each as a sorted list of lines."""


def contents(store: Path) -> tuple[list[str], list[str]]:
    """Return every ref and every object of a repository, as git lists them."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", f"--git-dir={store}", *words], capture_output=True, text=True, check=True)
        return sorted(done.stdout.splitlines())

    refs = git("for-each-ref", "--format=%(refname) %(objectname) %(symref)")
    return [row.strip() for row in refs], git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)")


def summed(lines: Sequence[str]) -> tuple[int, str]:
    text = "".join(f"{line}\n" for line in sorted(lines))
    return len(lines), sha256(text.encode()).hexdigest()


def recorded() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    return found


def write(record: dict[str, list[Any]]) -> None:
    rows = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(record.items()))
    RECORD.write_text("{\n" + ",\n".join(rows) + "\n}\n")


EXPECTED = recorded()


class Oracle:
    """A folder with stores, and the comparison of their contents with the record."""

    def __init__(self, folder: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.template = template
        self.pinned = Pinned(monkeypatch)
        self.exports: list[str] = []
        if template.exists():
            shutil.copytree(template, folder / "store.git")
        monkeypatch.chdir(folder)  # the operation log contains paths as given: use relative ones

    def step(self) -> None:
        self.pinned.step()

    def store(self, path: str = "store.git") -> Store:
        self.step()
        return Store.open(path)

    def exported(self, store: Store, sid: str, to: str | None = None) -> None:
        try:
            sent = store.export(sid, to=to)
            data = [sent.data, *(name.encode() + b"\0" + more for name, more in sent.other_files)]
            said = sha256(b"\0".join(data)).hexdigest()
        except GitSessionError:
            said = "refused"
        self.exports.append(f"{len(self.exports):04} {to or 'home'} {said}")

    def lines(self, *stores: str) -> Lines:
        """Return the lines of the stores, without those of an empty store, which is a separate group."""
        known = contents(self.template) if self.template.exists() else ([], [])
        refs, objects = [], []
        for name in stores:
            found = contents(self.folder / name)
            refs += [f"{name} {row}" for row in found[0] if row not in known[0]]
            objects += [f"{name} {row}" for row in found[1] if row not in known[1]]
        return sorted(refs), sorted(objects), sorted(self.exports)

    def compare(self, group: str, *stores: str) -> None:
        lines = self.lines(*(stores or ("store.git",)))
        found = [each for kind in lines for each in summed(kind)]
        if MODE == "record":
            write({**recorded(), group: found})
            return
        if MODE == "dump":
            DUMP.mkdir(exist_ok=True)
            kinds = zip(("ref", "object", "export"), lines, strict=True)
            text = "".join(f"{kind} {line}\n" for kind, found in kinds for line in found)
            (DUMP / f"{group.replace('/', '_').replace(' ', '_')}.txt").write_text(text)
        if group.startswith("sample ") and group not in EXPECTED:
            pytest.skip("this sample is not in the record")
        assert group in EXPECTED, f"{group} is not in {RECORD.name}: run with GITSESSION_ORACLE=record"
        expected = EXPECTED[group]
        wrong = [
            f"{kind}: {found[at]} instead of {expected[at]}" if found[at] != expected[at] else f"{kind}: others"
            for at, kind in ((0, "refs"), (2, "objects"), (4, "exports"))
            if found[at : at + 2] != expected[at : at + 2]
        ]
        assert not wrong, f"{group} is not what it was ({'; '.join(wrong)}): GITSESSION_ORACLE=dump writes the lists"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create an empty store that is copied for each group."""
    path = tmp_path_factory.mktemp("oracle") / "store.git"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        Pinned(patch)
        Store.create(path).close()
    return path


@pytest.fixture
def oracle(here: Path, template: Path, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    return Oracle(here, template, monkeypatch)


def test_an_empty_store(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Oracle(here, tmp_path / "none", monkeypatch)
    Store.create("store.git").close()
    made.compare("empty store")


# Generated conversations


PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
"""An image. A prefix of it is also an image. Images above a size limit are cut out of a payload as holes."""


def begun(data: bytes, chance: random.Random) -> bytes:
    """Return the beginning of an agent's file, as in an earlier state of the session."""
    if data.startswith(b"{\n"):  # an export of opencode
        document = json.loads(data)
        messages = document["messages"]
        return opencode_files.export(messages[: chance.randint(1, len(messages))], document["info"])
    lines = data.splitlines(keepends=True)
    return b"".join(lines[: chance.randint(min(3, len(lines)), len(lines))])


def rewritten(data: bytes, chance: random.Random) -> bytes:
    """Return the file without one of the lines in its second half."""
    lines = data.splitlines(keepends=True)
    del lines[chance.randrange(len(lines) // 2, len(lines))]
    return b"".join(lines)


def pi_tree(seed: int) -> bytes:
    """Return a session of pi with branches, labels, titles and invalid lines."""
    chance = random.Random(seed)
    lines = talk("aaaa0001", "aaaa0002", "aaaa0003")
    ids = ["aaaa0001", "aaaa0002", "aaaa0003"]
    for number in range(4, chance.randint(8, 30)):
        id, parent = f"aaaa{number:04}", chance.choice([ids[-1], ids[-1], ids[-1], chance.choice(ids)])
        step = chance.randrange(9)
        if step < 5:
            texts = ["", f"größe {number} 👍", "x" * 300, "line\nline\n", "\u202ebidi", a_token(seed).text]
            lifted = ["x" * 65_535, "y" * 65_536, *(b64encode(PNG[:size]).decode() for size in (765, 766, 768, 2048))]
            text = chance.choice([*texts, *texts, *lifted])
            lines.append(said(id, parent, text, chance.choice(["user", "assistant"]), number))
        elif step == 5:
            lines.append(label(id, parent, chance.choice(ids), chance.choice(["here", "there", None]), number))
        elif step == 6:
            lines.append(named(id, parent, f"name {number}", number))
        elif step == 7:
            lines.append(entry("later_kind", id, parent, number, words="of a later version"))
        else:
            lines.append(chance.choice([b"", b"no json", b'{"type": "message"', b"[]"]))
            continue
        ids.append(id)
    file = pi_file(*lines, id=f"tree{seed}")
    return slot("A title", "2026-02-01T00:00:01.000Z") + file if seed % 5 == 0 else file


def codex_turns(seed: int) -> bytes:
    chance = random.Random(seed)
    parts = []
    for number in range(chance.randint(2, 7)):
        calls = codex_files.call(f"c{number}") + codex_files.output(f"c{number}") if chance.random() < 0.5 else []
        parts.append(codex_files.turn(f"t{number}", calls))
        if chance.random() < 0.3:
            parts.append(codex_files.rolled_back(chance.choice([1, 1, 2, 9])))
        if chance.random() < 0.3:
            history = [codex_files.message("user", f"U t{number}"), codex_files.message("user", "all in short")]
            parts.append(codex_files.compacted("all in short", chance.choice([None, history])))
    return codex_files.rollout(*parts, first=chance.choice([None, 0]))


def of_claude(seed: int) -> bytes:
    return joined(*claude_code.asked(), *claude_author.Author(seed).session())


GENERATED: dict[str, tuple[str, int, Callable[[int], bytes]]] = {
    **{agent: (agent, 30, draw) for agent, draw in conversations.DRAWN.items()},
    "pi tree": ("pi", 25, pi_tree),
    "claude line": ("claude", 25, of_claude),
    "codex turns": ("codex", 20, codex_turns),
}
FILE_NAMES = {"claude": f"{claude_code.SESSION}.jsonl", "codex": f"{codex_files.NAME}.jsonl", "opencode": "export.json"}
CONVERSATIONS = [(name, seed) for name, (_, count, _) in GENERATED.items() for seed in range(count)]


def take(store: Store, agent: str, data: bytes) -> str:
    """Import ``data`` and return the id of its session.

    For Aider, the file is imported by its name only, because the session id depends on its path.
    """
    if agent == "aider":
        return bring(store.objects, data, agent=agent, name=conversations.NAMES["aider"]).session
    file = Path(FILE_NAMES.get(agent, "session.jsonl"))
    file.write_bytes(data)
    return store.import_file(file, agent=agent)[-1].session


@pytest.mark.parametrize("kind, seed", CONVERSATIONS, ids=lambda value: str(value).replace(" ", "-"))
def test_a_conversation_that_grows(kind: str, seed: int, oracle: Oracle) -> None:
    agent, _, draw = GENERATED[kind]
    data, chance = draw(seed), random.Random(seed)
    with oracle.store() as store:
        sid = take(store, agent, begun(data, chance))
        if seed % 3 == 0:
            oracle.step()
            store.session(sid).append(Message.user(f"said here, {seed}"))
        oracle.step()
        sid = take(store, agent, data)
        if seed % 5 == 0 and agent != "opencode":
            oracle.step()
            sid = take(store, agent, rewritten(data, chance))
        oracle.exported(store, sid)
        oracle.exported(store, sid, TARGETS[seed % len(TARGETS)])
    oracle.compare(f"{kind} {seed:02}")


# Entries of gitsession


ROLES = ("user", "assistant", "tool", "system", "developer", "shell", "custom")
WORDS = ("", "hi", "größe\n\nand more", "👍 e\u0301", "tab\tand \x1b[2J", "\u202ebidi", "a" * 90, "word " * 400)


class Draw:
    """A writer of entries of every public kind.

    It uses the names of fields and kinds in payloads, not those of classes.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def entry(self, kind: type[Entry]) -> Entry:
        given: dict[str, Any] = {"at_ms": self.chance.choice([0, 1_769_904_000_123])}
        for field in dataclasses.fields(kind):
            if field.name in ("at_ms", "extra"):
                continue
            if field.name == "role" and kind.kind == "message":
                given["role"] = self.chance.choice(ROLES)
            elif field.default is dataclasses.MISSING or self.chance.random() < 0.5:
                given[field.name] = self.value(str(field.type))
        return kind(**given)

    def value(self, type: str) -> Any:
        if type.endswith(" | None"):
            return None if self.chance.random() < 0.2 else self.value(type.removesuffix(" | None"))
        match type:
            case "str":
                return self.text()
            case "int":
                return self.chance.choice([0, 1, 23, 24, 255, 256, 65_536, 2**32, 2**63, -1, -25])
            case "bool":
                return self.chance.random() < 0.5
            case "bytes":
                return self.chance.choice([b"", b"\x00\xff", PNG, PNG[:1023], PNG[:1024]])
            case "Any":
                return self.plain()
            case "tuple[str, ...]":
                return tuple(self.text() for _ in range(self.chance.randrange(3)))
            case "tuple[tuple[str, str], ...]":
                return tuple((self.text(), self.text()) for _ in range(self.chance.randrange(3)))
            case "Mapping[str, str]":
                return {f"k{number}": self.text() for number in range(self.chance.randrange(3))}
            case "Mapping[str, Any]":
                return {f"k{number}": self.plain() for number in range(self.chance.randrange(3))}
        assert type.startswith("tuple["), type  # of blocks
        return tuple(self.block() for _ in range(self.chance.randrange(4)))

    def text(self) -> str:
        text = self.chance.choice(WORDS)
        if self.chance.random() < 0.05:
            long = ["long " * 14_000, "x" * 65_535, "y" * 65_536]
            text = self.chance.choice([*long, a_token(self.chance.randrange(5)).text])
        return text

    def plain(self) -> Any:
        return self.chance.choice([None, True, 0.5, -1e300, 7, self.text(), [1, [self.text()]], {"b": 1, "a": b"\x00"}])

    def block(self) -> Any:
        match self.chance.randrange(6):
            case 0:
                return gitsession.Text(self.text())
            case 1:
                return gitsession.Thinking(self.text(), self.value("str | None"), self.chance.random() < 0.2)
            case 2:
                return gitsession.ToolCall("call_1", "bash", {"command": self.text(), "more": self.plain()})
            case 3:
                return gitsession.Image(self.value("bytes"), "image/png")
            case 4:
                return gitsession.File("a.pdf", "application/pdf", self.value("bytes"))
        return gitsession.OtherBlock({"type": "later_kind", "words": self.plain()})


LATER_KINDS = frozenset({"mark", "permission", "plan_change", "todo"})
"""Kinds that became public after the record was made. They are left out, so that the recorded entries stay the same."""


def own_kinds() -> list[type[Entry]]:
    """Return every kind of entry with a public name that the record contains, sorted by kind."""
    named = (getattr(gitsession, name) for name in gitsession.__all__)
    kinds = {one for one in named if inspect.isclass(one) and issubclass(one, Entry) and one is not Entry}
    kinds = {one for one in kinds if one.kind not in LATER_KINDS}
    return sorted(kinds, key=lambda kind: kind.kind)


def appended(session: Any, made: Entry) -> str:
    try:
        session.append(made)
    except GitSessionError:
        return f"{made.kind}: refused"
    return f"{made.kind}: appended"


@pytest.mark.parametrize("seed", range(20))
def test_entries_of_our_own(seed: int, oracle: Oracle) -> None:
    draw = Draw(seed)
    with oracle.store() as store:
        session = store.new_session(agent=TARGETS[seed % len(TARGETS)], cwd="/nowhere/work")
        session.append(Message.user(f"begin {seed}"))
        for kind in own_kinds():
            oracle.step()
            oracle.exports.append(f"{len(oracle.exports):04} {appended(session, draw.entry(kind))}")
        for number in range(6):
            oracle.step()
            oracle.exports.append(f"{number:04} {appended(session, draw.entry(Message))}")
        oracle.exported(store, session.id)
        oracle.exported(store, session.id, TARGETS[(seed + 1) % len(TARGETS)])
    oracle.compare(f"own {seed:02}")


# The command line


class Shell:
    """A runner of commands on stores in the folder. Each command is a step of the clock."""

    def __init__(self, oracle: Oracle, run: Callable[..., str]) -> None:
        self.oracle, self._run = oracle, run

    def __call__(self, *words: str, store: str = "store.git", code: int = 0) -> str:
        self.oracle.step()
        return self._run("--store", store, *words, code=code)

    def taken(self, name: str, data: bytes, *words: str) -> str:
        """Import a file and return the id of its session."""
        Path(name).write_bytes(data)
        told = json.loads(self("import", name, *words, "--json"))
        return str(told["sessions"][0]["session"])

    def ids(self, session: str) -> list[str]:
        """Return the ids of the entries of the active branch, tip first."""
        return [str(each["id"]) for each in json.loads(self("log", session, "--json"))["entries"]]


@pytest.fixture
def sh(oracle: Oracle, run: Callable[..., str]) -> Shell:
    return Shell(oracle, run)


LONG = "word after word, " * 40


def long_talk(id: str = "s1", count: int = 10, **fields: str) -> bytes:
    ids = [None, *(f"aaaa00{number:02}" for number in range(count))]
    roles = ("user", "assistant")
    pairs = zip(ids[1:], ids, strict=False)
    lines = [said(str(at), above, f"{at} {LONG}", roles[n % 2], n + 1) for n, (at, above) in enumerate(pairs)]
    return pi_file(*lines, id=id, **fields)


def test_branches_labels_names_and_undo(oracle: Oracle, sh: Shell) -> None:
    session = sh.taken("a.jsonl", long_talk())
    other = sh.taken("b.jsonl", of_claude(3), "--from", "claude")
    sh("branch", session, "another-way", "--at", "aaaa0004")
    sh("switch", session, "another-way")
    sh("label", f"{session}@aaaa0002", "größe of it")
    sh("label", f"{session}@aaaa0003", "there")
    sh("label", f"{session}@aaaa0003", "")
    sh("name", session, "Fix the login redirect")
    sh("undo", session)
    sh("redo", session)
    sh("undo", "--any")
    sh("name", other, "Another")
    sh("switch", session, "main")
    forked = str(json.loads(sh("fork", f"{session}@aaaa0005", "--json"))["session"])
    with oracle.store() as store:
        store.session(forked).append(Message.user("in the fork"))
        oracle.step()
        on = store.session(session).branch("third", "aaaa0006")
        on.append(Message.assistant("on the third"))
        oracle.step()
        store.session(forked).fork("leaf").append(Message.user("in the fork of the fork"))
        oracle.exported(store, forked)
        oracle.exported(store, session, "jsonl")
        oracle.exported(store, session, "markdown")
    sh("fork", f"{other}@leaf")
    sh("undo", "--any")
    sh("label", f"{session}@aaaa0005", "there")  # after the forks: the order in which a fork lists two labels varies
    sh("undo", "--any")
    sh("redo", "--any")
    oracle.compare("branches")


def test_two_writers_of_one_leaf(oracle: Oracle, sh: Shell) -> None:
    session = sh.taken("a.jsonl", long_talk())
    with oracle.store() as store, Store.open("store.git") as beside:
        one, two = store.session(session), beside.session(session)
        seen = one.resolve("leaf")
        one.append(Message.user("first"), expected=seen)
        oracle.step()
        two.append(Message.user("second"), expected=seen, on_moved="fork")
        two.append(Message.assistant("on the fork"))
    oracle.compare("two writers")


COMPACTIONS = {
    "pi": ["--strategy", "pi", "--keep-tokens", "300"],
    "opencode": ["--strategy", "opencode", "--keep-tokens", "400"],
    "codex": ["--strategy", "codex", "--keep-tokens", "400"],
    "aider": ["--strategy", "aider", "--keep-tokens", "400"],
    "from": ["--strategy", "from", "--at", "aaaa0008"],
    "up-to": ["--strategy", "up-to", "--at", "aaaa0004"],
    "omp": ["--profile", "omp", "--keep-tokens", "300", "--focus", "the tests"],
}


@pytest.mark.parametrize("name", COMPACTIONS)
def test_compactions(name: str, oracle: Oracle, sh: Shell) -> None:
    session = sh.taken("a.jsonl", long_talk())
    sh("compact", session, *COMPACTIONS[name])
    with oracle.store() as store:
        for number in range(4):
            oracle.step()
            store.session(session).append(Message.user(f"more {number} {LONG}"))
            store.session(session).append(Message.assistant(f"answer {number} {LONG}"))
    sh("compact", session, "--keep-tokens", "200")
    sh("undo", session)
    sh("compact", session, "--keep-tokens", "500")
    with oracle.store() as store:
        for target in (None, *TARGETS):
            oracle.exported(store, session, target)
        context = store.session(session).context()
        for provider in ("anthropic", "openai-chat", "openai-responses"):
            request = json.dumps(context.request(provider), sort_keys=True, default=repr)
            oracle.exports.append(f"{provider} {sha256(request.encode()).hexdigest()}")
    oracle.compare(f"compact {name}")


class Short:
    """A summarizer that always returns the same summary."""

    NAME = "short"

    def summarise(self, request: Any, **_: Any) -> gitsession.Summary:
        return gitsession.Summary("all in short")


def pruned(session: gitsession.Session) -> object:
    return session.compaction.prune(gitsession.clear_tool_uses(trigger_tool_uses=1, keep=1))


def compacted(session: gitsession.Session) -> object:
    return session.compact(keep_tokens=1, summarizer=Short())


@pytest.mark.parametrize("agent", [*conversations.DRAWN])
def test_a_compaction_and_a_prune_of_each_agent(agent: str, oracle: Oracle) -> None:
    with oracle.store() as store:
        for seed in range(100, 104):
            session = store.session(take(store, agent, conversations.DRAWN[agent](seed)))
            oracle.step()
            for act in (pruned, compacted):
                try:
                    did = "nothing" if act(session) is None else "done"
                except GitSessionError:
                    did = "refused"
                oracle.exports.append(f"{len(oracle.exports):04} {did}")
            oracle.exported(store, session.id)
    oracle.compare(f"shortened {agent}")


# Files of a workspace


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Yield a folder with a fixed path. Only one test can use it at a time."""
    if Path("/tmp").resolve() != Path("/tmp") or Path("/tmp/.git").exists():
        pytest.skip("/tmp is no folder of its own here")
    with open(f"{WORKSPACE}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        shutil.rmtree(WORKSPACE, ignore_errors=True)
        WORKSPACE.mkdir()
        yield WORKSPACE
        shutil.rmtree(WORKSPACE)


def fill(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


def test_checkpoints_and_rewinds(oracle: Oracle, sh: Shell, workspace: Path) -> None:
    session = sh.taken("a.jsonl", long_talk(count=4, cwd=str(workspace)))
    at = ["--workspace", str(workspace)]
    fill(workspace, readme="one\n", src__main="print(1)\n", ignored="x")
    (workspace / ".gitignore").write_text("ignored\n")
    (workspace / "run.sh").write_text("#!/bin/sh\n")
    (workspace / "run.sh").chmod(0o755)
    (workspace / "link").symlink_to("readme")
    (workspace / "a:b").write_text("escaped\n")
    sh("checkpoint", session, *at, "-m", "before I try")
    with oracle.store() as store:
        opened = store.session(session)
        opened.append(Message.user("change it"))
        oracle.step()
        opened.append(Message.assistant("I do"))
        with opened.files.checkpoint(workspace, call="call_1"):
            oracle.step()
            fill(workspace, readme="two\n", src__more="new\n")
            (workspace / "run.sh").unlink()
        oracle.step()
        opened.append(Message.assistant("done"))
        opened.files.take_checkpoint("before", workspace, paths=["readme", "later"], call="call_2")
        oracle.step()
        fill(workspace, readme="three\n", later="l\n")
        opened.files.take_checkpoint("after", workspace, paths=["readme", "later"], call="call_2")
        opened.append(Message.assistant("and done"))
    fill(workspace, mine="of the user\n")
    sh("rewind", f"{session}@leaf~2", *at)
    sh("undo", session, *at)
    sh("redo", session, *at)
    sh("undo", session, *at)
    sh("rewind", f"{session}@leaf~3", "--files", "--force", *at)
    sh("rewind", f"{session}@leaf~1", "--conversation", *at)
    fill(workspace, readme="four\n")
    sh("checkpoint", session, *at)
    held = sorted((path.name, path.read_bytes()) for path in workspace.rglob("*") if path.is_file())
    oracle.exports.append(sha256(repr(held).encode()).hexdigest())
    oracle.compare("checkpoints")


# Secrets and purges


def secret_talk() -> bytes:
    words = [a_token(1).text, "the password is hunter2-hunter2", a_token(2).text]
    ids = [None, "bbbb0000", "bbbb0001", "bbbb0002"]
    pairs = enumerate(zip(ids[1:], ids, strict=False))
    return pi_file(*(said(str(id), above, f"here: {words[n]} .", at=n + 1) for n, (id, above) in pairs), id="s2")


def configured(name: str, value: str) -> None:
    subprocess.run(["git", "--git-dir=store.git", "config", name, value], check=True)


def test_redactions(oracle: Oracle, sh: Shell) -> None:
    configured("gitsession.redact", "false")
    session = sh.taken("a.jsonl", secret_talk())
    sh("branch", session, "other", "--at", "bbbb0001")
    configured("gitsession.redact", "true")
    sh("redact", session)
    with oracle.store() as store:
        store.session(session).append(Message.user(f"again {a_token(3).text}"))
        oracle.exported(store, session)
    hidden = sh.taken("b.jsonl", secret_talk().replace(b'"s2"', b'"s3"'))
    with oracle.store() as store:
        oracle.exported(store, hidden)
        oracle.exports.append(sha256(store.export(hidden, with_secrets=True).data).hexdigest())
    oracle.compare("redact")


def test_purges(oracle: Oracle, sh: Shell) -> None:
    session, other = sh.taken("a.jsonl", long_talk()), sh.taken("b.jsonl", secret_talk())
    third = sh.taken("c.jsonl", long_talk("s4"))
    sh("fork", f"{session}@aaaa0004")
    sh("label", f"{session}@aaaa0003", "kept")
    sh("compact", session, "--keep-tokens", "300")
    sh("purge", f"{session}@aaaa0002", "--yes")
    sh("purge", "--match", "hunter2", "--yes")
    sh("purge", third, "--yes")
    sh("rm", other)
    sh("purge", other, "--yes")
    sh("import", "a.jsonl")
    sh("maintain")
    with oracle.store() as store:
        oracle.exported(store, session)
    oracle.compare("purge")


def test_trash_archive_and_retention(oracle: Oracle, sh: Shell) -> None:
    sessions = [sh.taken(f"{n}.jsonl", long_talk(f"t{n}", 4 + n)) for n in range(5)]
    sh("rm", sessions[0])
    sh("restore", sessions[0])
    sh("rm", sessions[1])
    sh("undo", "--any")
    sh("archive", sessions[2], sessions[3])
    sh("restore", sessions[2])
    sh("archive", sessions[2])
    sh("label", f"{sessions[4]}@aaaa0002", "keep")
    sh("prune", "--keep", "0", "--label", "keep")
    sh("restore", sessions[1])
    sh("prune", "--keep", "1", "--purge", "--yes")
    oracle.compare("trash and archive")


# Databases and folders of opencode


@pytest.mark.parametrize("seed", range(5))
def test_a_database_of_opencode(seed: int, oracle: Oracle) -> None:
    exports = [(number, conversations.DRAWN["opencode"](200 + seed + number)) for number in range(2)]
    drawn = [json.loads(data.replace(b'"msg_', f'"msg_{number}'.encode())) for number, data in exports]
    for document in drawn:
        for part in (part for message in document["messages"] for part in message["parts"]):
            part["id"] = f"prt_{part['messageID']}{part['id']}"
    with oracle.store() as store:
        database = opencode_files.Database(Path("opencode.db"), log=seed % 2 == 0)
        for size in (1, None):
            for number, document in enumerate(drawn):
                told = opencode_files.info(id=f"ses_{number}", title=f"Title {number}")
                database.put(document["messages"][:size], told, time_updated=opencode_files.START_MS + (size or 99))
            oracle.step()
            taken = store.import_file("opencode.db")
        database.close()
        for each in taken:
            oracle.exported(store, each.session)
    oracle.compare(f"opencode database {seed}")


# Other repositories


def test_remotes_and_clones(oracle: Oracle, sh: Shell) -> None:
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", "hub.git"], check=True)
    session, other = sh.taken("a.jsonl", long_talk()), sh.taken("b.jsonl", of_claude(5), "--from", "claude")
    sh("remote", "add", "origin", "hub.git")
    sh("sync", "--yes")
    sh("clone", "hub.git", "clone.git", store="clone.git")
    for name in ("store.git", "clone.git"):
        with oracle.store(name) as store:
            store.session(session).append(Message.user(f"said in {name}"))
        sh("name", session, f"Named in {name}", store=name)
        sh("label", f"{session}@aaaa0002", f"label in {name[:5]}", store=name)
        sh("sync", "--yes", store=name)
    sh("sync", "--yes")
    sh("pull", store="clone.git")
    for name, data, code in (("store.git", 6, 0), ("clone.git", 7, 4)):  # the first one is published first
        Path("more.jsonl").write_bytes(of_claude(data))
        sh("import", "more.jsonl", "--from", "claude", store=name)
        sh("push", "--yes", store=name, code=code)
    sh("sync", "--yes", store="clone.git")
    sh("sync", "--yes")
    sh("archive", other)
    sh("sync", "--yes")
    sh("purge", f"{session}@aaaa0003", "--yes", store="clone.git")
    sh("archive", session, store="clone.git")
    sh("sync", "--yes", store="clone.git")
    sh("sync", "--yes")
    sh("bundle", "create", "all.bundle")
    sh("init", store="fourth.git")
    sh("bundle", "take", "all.bundle", store="fourth.git")
    oracle.compare("remotes", "store.git", "clone.git", "hub.git", "fourth.git")


# Sample files, if available


def samples(*agents: str) -> list[Path]:
    found = [path for agent in agents for path in (SHARED / "sessions" / agent).rglob("*")]
    files = [path for path in found if path.is_file() and not path.name.endswith(".meta.json")]
    return sorted(path for path in files if path.suffix in (".jsonl", ".json", ".db", ".md"))


def sample_name(path: Path) -> str:
    """Return the name of a group: the hash of a file and its path."""
    place = path.relative_to(SHARED).as_posix().encode()
    return f"sample {sha256(place + bytes(1) + path.read_bytes()).hexdigest()[:20]}"


SAMPLES = samples("aider", "claude", "codex", "omp", "opencode", "pi")


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.relative_to(SHARED / "sessions").as_posix())
def test_a_sample_that_grows(path: Path, oracle: Oracle) -> None:
    data = path.read_bytes()
    halves = [data] if path.suffix == ".db" or len(data) > LARGE_BYTES else [half_of(data), data]
    sids: list[str] = []
    with oracle.store() as store:
        for part in halves:
            oracle.step()
            try:
                if path.suffix == ".md":
                    sids = [bring(store.objects, part, agent="aider", name=conversations.NAMES["aider"]).session]
                else:
                    Path(path.name).write_bytes(part)
                    sids = [each.session for each in store.import_file(path.name)]
            except GitSessionError:
                oracle.exports.append(f"{len(oracle.exports):04} refused")
                continue
            for sid in sids:
                oracle.exported(store, sid)
        if halves[1:] and sids:
            oracle.exported(store, sids[-1], TARGETS[len(data) % len(TARGETS)])
    oracle.compare(sample_name(path))


def half_of(data: bytes) -> bytes:
    """Return the first half of a file's lines. A document has no halves and is returned whole."""
    return data if data.startswith(b"{\n") else b"".join(data.splitlines(keepends=True)[: data.count(b"\n") // 2])


FOLDERS = [path for agent in ("claude", "codex") if (path := SHARED / "sessions" / agent / "generated").is_dir()]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.parent.name)
def test_a_folder_of_samples(folder: Path, oracle: Oracle, sh: Shell) -> None:
    """Import a folder with sub-agents, forks, and the agent's records of files."""
    shutil.copytree(folder, "agent", copy_function=shutil.copyfile)
    sh("import", "agent")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    oracle.compare(f"sample {sha256(''.join(map(sample_name, files)).encode()).hexdigest()[:20]}")


PI_CASES = range(150 if goldens.GOLDEN.exists() else 0)


@pytest.mark.parametrize("number", PI_CASES)
def test_a_session_of_pi_that_grows(number: int, golden: list[dict[str, Any]], oracle: Oracle) -> None:
    data = golden[number]["text"].encode()
    with oracle.store() as store:
        sid = take(store, "pi", begun(data, random.Random(number)))
        oracle.step()
        sid = take(store, "pi", data)
        oracle.exported(store, sid)
        oracle.exported(store, sid, TARGETS[number % len(TARGETS)])
    oracle.compare(f"sample pi {number:03}")
