"""Tests of valid pushes: they are accepted from every release and agent, also with git's own checks."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import Clock, bring, fork, pi_file, said, session, talk
from checkpoints import held
from pushed import Client, checkpoint, hub, push, user
from stories import NAMES, OF_A_SUB_AGENT, PLACE_OF_A_SUB_AGENT, STORIES

from gitsession.model import entries as kinds
from gitsession.model.blocks import Image, OtherBlock
from gitsession.model.entries import Compaction, Message, UnknownEntry
from gitsession.store import create, refs

Make = Callable[[Client], None]
GOOD: dict[str, Make] = {}
SESSIONS = "refs/heads/sessions/*:refs/heads/sessions/*"


def good(name: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        assert name not in GOOD
        GOOD[name] = make
        return make

    return add


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hub(tmp_path_factory.mktemp("server") / "hub.git")


for _agent, _data in STORIES.items():
    good(f"a session of {_agent}")(lambda c, a=_agent, d=_data: bring(c.store, d, agent=a, name=NAMES[a]) and None)


@good("a session of a sub-agent")
def _(client: Client) -> None:
    bring(client.store, OF_A_SUB_AGENT, agent="claude", name=PLACE_OF_A_SUB_AGENT)


def move(client: Client, ref: str, oid: str) -> None:
    client.store.flush()
    client.git("update-ref", ref, oid)


@good("a session that was begun here")
def _(client: Client) -> None:
    """The session also has its title and a checkpoint."""


@good("labels and names")
def _(client: Client) -> None:
    ours = session(client.store, client.sid)
    ours.label("leaf", "here")
    ours.rename("Another name")


@good("branches that begin anywhere")
def _(client: Client) -> None:
    ours = session(client.store, client.sid)
    for n in range(3):
        ours.branch(f"side-{n}", "root" if n else "leaf")


@good("a fork, with what it shares")
def _(client: Client) -> None:
    origin = session(client.store, client.sid)
    origin.label("root", "start")
    copy = fork(origin)
    copy.append(Message.user("on a line of its own"))
    copy.branch("above", "root")


@good("checkpoints with odd names, links, programs and a submodule")
def _(client: Client) -> None:
    rows = [
        ("100644", b"%a%3Ab", client.put("blob", b"")),
        ("120000", b"link", client.put("blob", b"../elsewhere")),
        ("100755", b"run.sh", client.put("blob", b"#!/bin/sh\n")),
        ("40000", b"sub", client.tree(("160000", b"vendor", client.leaf.oid))),
    ]
    move(client, client.ref("files"), client.entry(checkpoint(), client.on("files"), files=client.tree(*rows)).oid)


@good("a thousand files that change one by one")
def _(client: Client) -> None:
    at = session(client.store, client.sid).leaf
    contents = {f"folder-{n % 7}/deep/{n}.txt": str(n) for n in range(200)}
    for n in range(12):
        contents[f"folder-{n % 7}/deep/{n}.txt"] = "changed"
        held(client.store, client.sid, contents, at)


@good("files line that stepped aside")
def _(client: Client) -> None:
    move(client, client.ref("files-abcdefgh"), client.entry(checkpoint(), client.on("files")).oid)


@good("a compaction of ours")
def _(client: Client) -> None:
    summary = "What was said: " + "much, " * 30_000
    entry = Compaction(at_ms=1_800_000_000_000, summary=summary, first_kept="x", tokens_before=9)
    session(client.store, client.sid).append(entry)


@good("a branch that was left, with its leaf as the second parent")
def _(client: Client) -> None:
    ours = session(client.store, client.sid)
    left = ours.leaf
    ours.branch("side", "root")
    ours.switch("side")
    ours.append(kinds.BranchSummary(at_ms=1_800_000_000_000, summary="Nothing came of it"), summarises=left)


@good("pictures and long words, lifted out")
def _(client: Client) -> None:
    picture = Image(data=b"\x89PNG\r\n\x1a\n" + bytes(5000), mime="image/png")
    session(client.store, client.sid).append(Message(role="user", content=(picture,), at_ms=1))
    bring(client.store, pi_file(said("a", None, "word " * 30_000), id="long"))


@good("a thousand branches at once")
def _(client: Client) -> None:
    ours = session(client.store, client.sid)
    client.store.flush()
    leaf = ours.leaf.oid
    lines = "".join(f"create {client.ref(f'b{n}')} {leaf}\n" for n in range(1000))
    client.git("update-ref", "--stdin", stdin=lines.encode())


@good("kinds, blocks and versions of a later release")
def _(client: Client) -> None:
    at = client.entry(UnknownEntry(name="telepathy", body={"wave": 7}, at_ms=2_000_000_000_000), client.leaf)
    at = client.entry(Message(role="user", content=(OtherBlock({"type": "hologram"}),), at_ms=2_000_000_000_000), at)
    at = client.entry(UnknownEntry(name="message", body=["anything"], version=2, at_ms=2_000_000_000_000), at)
    move(client, client.ref(), at.oid)
    for where in ("meta", "files"):
        move(
            client,
            client.ref(where),
            client.entry(UnknownEntry(name="later", body=None, at_ms=1), client.on(where)).oid,
        )


@good("a session of a later view, whose words are said in another way")
def _(client: Client) -> None:
    root = client.entry(
        kinds.SessionHeader(at_ms=0, agent="agent", view=99), old=b"session: agent", new=b"Session <agent>"
    )
    at = client.entry(user(), root, old=b"user: more", new=b"The user says: more")
    at = client.entry(user("again"), at, old=b"user: again", new=b"The user says: again")
    client.git("update-ref", refs.leaf("19700101-bbbbbbbbbbbbb"), at.oid)


@good("a session of an agent that is not known here")
def _(client: Client) -> None:
    root = client.entry(kinds.SessionHeader(at_ms=0, agent="nobody", view=1))
    source = b"\nSource: nobody/x 1\nChain"
    at = client.entry(user(), root, old=b"\nChain", new=source)
    client.git("update-ref", refs.leaf("19700101-ccccccccccccc"), at.oid)


@good("lines that no parser should be given")
def _(client: Client) -> None:
    deep = b'{"type":"message","id":"b","parentId":"a","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    lines = [
        said("a", None),
        deep,
        b'{"torn',
        b"\xff\xfe\x00",
        b"",
        said("c", "a", "\ud800"),
        said("d", "c", "a\x1b[2J"),
    ]
    bring(client.store, pi_file(*lines, id="odd"))


@good("a main that says more")
def _(client: Client) -> None:
    tree = client.files(("100644", b"NOTES.md", b"ours"), ("100644", create.MARKER.encode(), b'{"format": 1}\n'))
    client.store.flush()
    at = client.git("commit-tree", "-m", "notes", "-p", create.first_commit()[0], tree)
    client.git("update-ref", create.MAIN, at)


@pytest.mark.parametrize("name", GOOD)
def test_valid_push_is_accepted(name: str, server: Path, tmp_path: Path) -> None:
    client = Client.begin(tmp_path / "store.git")
    GOOD[name](client)
    client.store.flush()
    done = push(client.path, server, SESSIONS, f"{create.MAIN}:{create.MAIN}")
    assert done.returncode == 0, done.stderr
    assert "gitsession" not in done.stderr.replace("gitsession/", "")
    ours = client.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/sessions")
    there = {*_git(server, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/sessions").splitlines()}
    assert there >= {*ours.splitlines()}
    assert client.sid in ours


def _git(repository: Path, *words: str) -> str:
    return subprocess.run(["git", f"--git-dir={repository}", *words], capture_output=True, text=True, check=True).stdout


def test_growing_branch_is_pushed_step_by_step(tmp_path: Path, server: Path) -> None:
    client = Client.begin(tmp_path / "store.git")
    ours = session(client.store, client.sid, clock=Clock(2_000_000_000_000))
    for n in range(3):
        ours.append(Message.user(str(n)))
        ours.rename(f"Name {n}")
        client.store.flush()
        assert push(client.path, server, SESSIONS).returncode == 0
    assert push(client.path, server, SESSIONS).stderr.strip() == "Everything up-to-date"


def test_fork_may_be_pushed_before_its_origin(tmp_path: Path, server: Path) -> None:
    client = Client.begin(tmp_path / "store.git")
    copy = fork(session(client.store, client.sid))
    copy.append(Message.user("mine"))
    client.store.flush()
    for sid in (copy.id, client.sid):
        done = push(client.path, server, f"{refs.session(sid)}*:{refs.session(sid)}*")
        assert done.returncode == 0, done.stderr


def test_branches_of_a_fork_of_a_fork_may_start_in_any_shared_session(tmp_path: Path, server: Path) -> None:
    client = Client.begin(tmp_path / "store.git")
    first = fork(session(client.store, client.sid))
    first.append(Message.user("first"))
    second = fork(first)
    second.append(Message.user("second"))
    client.store.flush()
    assert push(client.path, server, SESSIONS).returncode == 0
    second.branch("in-first", second.history()[-3])  # after the `fork` entry of the first one
    second.branch("in-origin", "root")
    for name in ("in-first", "in-origin"):
        second.switch(name)
        second.append(Message.user(name))
    client.store.flush()
    done = push(client.path, server, SESSIONS)
    assert done.returncode == 0, done.stderr


def test_titles_and_labels_on_a_branch_are_accepted_beside_those_of_meta(tmp_path: Path, server: Path) -> None:
    client = Client.begin(tmp_path / "store.git")
    ours = session(client.store, client.sid)
    ours.append(kinds.Title(title="inline"))
    ours.branch("side", "root")
    client.store.flush()
    assert push(client.path, server, SESSIONS).returncode == 0
    ours.switch("side")
    ours.append(kinds.Title(title="on the side"))
    client.store.flush()
    done = push(client.path, server, SESSIONS)
    assert done.returncode == 0, done.stderr


def test_a_store_of_another_release_is_pushed_whole(tmp_path: Path, server: Path) -> None:
    """Push sessions of all agents, with forks and branches, at once."""
    client = Client.begin(tmp_path / "store.git")
    for agent, data in STORIES.items():
        sid = bring(client.store, data, agent=agent, name=NAMES[agent]).session
        copy = fork(session(client.store, sid))
        copy.append(Message.user(f"from {agent}"))
    bring(client.store, pi_file(*talk(*(f"m{n}" for n in range(300))), id="many"))
    client.store.flush()
    done = push(client.path, server, SESSIONS)
    assert done.returncode == 0, done.stderr
    assert _git(server, "fsck", "--strict", "--no-dangling", "--no-progress") == ""


def test_there_are_enough_of_them() -> None:
    assert len(GOOD) >= 15
