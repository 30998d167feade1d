"""Tests of malicious pushes: the hook rejects each with its reason, and no data is left behind.

The checks of git are disabled in the repository, so that only those of gitsession apply.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from builders import begun
from promises import Faults
from pushed import SEVERAL_PROCESSES, Client, checkpoint, everything_in, hub, push, user
from raw import git

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.codec import cbor
from gitsession.codec.digest import hash_of
from gitsession.codec.holes import StoredPayload
from gitsession.model import entries as kinds
from gitsession.sessions.node import Node
from gitsession.store import create, refs
from gitsession.workspace import names

Refspecs = list[str]
Make = Callable[[Client], "str | Refspecs"]


@dataclass(frozen=True)
class Bad:
    make: Make
    rule: str
    says: str


BAD: dict[str, Bad] = {}


def bad(name: str, rule: str, says: str) -> Callable[[Make], Make]:
    """Register a malicious push.

    Args:
        name: Name of the case.
        rule: Rule that rejects it.
        says: Text in the error message.
    """

    def add(make: Make) -> Make:
        assert name not in BAD
        BAD[name] = Bad(make, rule, says)
        return make

    return add


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    return Client.begin(tmp_path_factory.mktemp("client") / "store.git")


@pytest.fixture(scope="module", params=[(), SEVERAL_PROCESSES], ids=["one process", "several"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, client: Client
) -> tuple[Path, object]:
    """Create a server that has the session, and return it with its refs and objects."""
    made = hub(tmp_path_factory.mktemp("server") / "hub.git", strict=False, program=request.param)
    done = push(client.path, made, "refs/heads/sessions/*:refs/heads/sessions/*")
    assert done.returncode == 0, done.stderr
    with (made / "config").open("a") as config:  # limits that a test can reach
        config.write("[gitsession]\n\tmaxEntries = 50\n\tmaxFileBytes = 5000000\n")
    return made, everything_in(made)


# ---- names and modes below files/


def kept(client: Client, files: str) -> str:
    """Write a checkpoint with this tree of files after the last one, and return its refspec."""
    return f"{client.entry(checkpoint(), client.on('files'), files=files).oid}:{client.ref('files')}"


NAMES = {
    "the folder above": (b"..", "leads to another folder"),
    "the folder itself": (b".", "leads to another folder"),
    "git's folder": (b".git", "git's own folder"),
    "git's folder in capitals": (b".GIT", "git's own folder"),
    "git's folder as NTFS shortens it": (b"git~1", "git's own folder"),
    "git's folder as NTFS trims it": (b".git. .", "git's own folder"),
    "git's folder as a stream of NTFS": (b".git::$INDEX_ALLOCATION", "git's own folder"),
    "git's folder as HFS reads it": (".g\u200cit".encode(), "git's own folder"),
    "git's folder behind a backslash": (b"a\\.git", "git's own folder"),
    "a backslash": (b"a\\b", "not escaped as in a checkpoint"),
    "a device of Windows": (b"nul.txt", "not escaped as in a checkpoint"),
    "a drive of Windows": (b"c:evil", "not escaped as in a checkpoint"),
    "a line end": (b"a\nb", "not escaped as in a checkpoint"),
    "codes for the terminal": (b"a\x1b[2Jb", "not escaped as in a checkpoint"),
    "no UTF-8": (b"a\xff", "not escaped as in a checkpoint"),
    "text that turns round": ("a\u202eb".encode(), "not escaped as in a checkpoint"),
    "what git looks into": (b".gitmodules", "not escaped as in a checkpoint"),
    "a name that is too long": (b"a" * 256, "more than 255 bytes"),
    "a name of ours while it is written": (b".gitsession-abc-1.tmp", "a name of our own"),
}

for _name, (_raw, _says) in NAMES.items():
    bad(f"a file called {_name}", "files", _says)(lambda c, raw=_raw: kept(c, c.files(("100644", raw, b"evil"))))

bad("a name with a slash", "files", "not a tree")(lambda c: kept(c, c.files(("100644", b"a/b", b"evil"))))
bad("a file in a folder above", "files", "leads to another folder")(
    lambda c: kept(c, c.tree(("40000", b"..", c.files(("100644", b"evil", b"")))))
)
bad("a mode that no file has", "files", "mode 100664")(lambda c: kept(c, c.files(("100664", b"a", b""))))
bad("a mode with the set-uid bit", "files", "mode 104755")(lambda c: kept(c, c.files(("104755", b"a", b""))))
bad("names out of order", "files", "out of order or duplicated")(
    lambda c: kept(c, c.files(("100644", b"b", b""), ("100644", b"a", b"")))
)
bad("a name that is there twice", "files", "out of order or duplicated")(
    lambda c: kept(c, c.files(("100644", b"a", b"one"), ("100644", b"a", b"two")))
)
bad("a file and a folder of one name", "files", "out of order or duplicated")(
    lambda c: kept(c, c.tree(("40000", b"a", c.files(("100644", b"x", b""))), ("100644", b"a", c.put("blob", b""))))
)
bad("a folder that is empty", "files", "is empty")(lambda c: kept(c, c.tree(("40000", b"a", c.tree()))))
bad("a file that is a folder", "files", "is a tree")(lambda c: kept(c, c.tree(("100644", b"a", c.files()))))
bad("a link that is longer than any path", "size", "the limit is 4,096")(
    lambda c: kept(c, c.files(("120000", b"a", b"/" * 5000)))
)


@bad("folders deeper than a path can be", "files", f"more than {names.DEPTH_MAX} folders deep")
def _(client: Client) -> str:
    tree = client.files(("100644", b"a", b""))
    for _ in range(names.DEPTH_MAX + 1):
        tree = client.tree(("40000", b"a", tree))
    return kept(client, tree)


@bad("a tree that holds itself a million times", "files", "new names below files/")
def _(client: Client) -> str:
    tree = client.files(("100644", b"a", b""))
    for _ in range(12):
        tree = client.tree(*(("40000", b"%02d" % n, tree) for n in range(16)))
    return kept(client, tree)


@bad("a file that is too large", "size", "the limit is 5,000,000")
def _(client: Client) -> str:
    return kept(client, client.files(("100644", b"large", bytes(6_000_000))))


# ---- the tree of an entry


def after(client: Client, node: Node) -> str:
    """Return the refspec that sets ``main`` to ``node``."""
    return f"{node.oid}:{client.ref()}"


def with_rows(client: Client, *more: tuple[str, bytes, str]) -> str:
    return after(client, client.entry(user(), client.leaf, more=more))


def payload_blob(client: Client) -> str:
    return client.git("rev-parse", f"{client.leaf.oid}:entry.cbor")


bad("a payload that is a link", "entry", "mode 120000")(
    lambda c: with_rows(c, ("120000", b"entry.cbor", c.put("blob", b"/etc/passwd")))
)
bad("a payload that can be executed", "entry", "mode 100755")(
    lambda c: with_rows(c, ("100755", b"entry.cbor", payload_blob(c)))
)
bad("a payload that is a submodule", "tree", "is a commit")(
    lambda c: with_rows(c, ("160000", b"entry.cbor", c.leaf.oid))
)
bad("a payload that is a folder", "tree", "is a tree")(
    lambda c: with_rows(c, ("40000", b"entry.cbor", c.files(("100644", b"a", b""))))
)
bad("two payloads", "entry", "expected one payload")(
    lambda c: with_rows(c, ("100644", b"entry.jsonl", c.put("blob", b"{}")))
)
bad("a file that no entry has", "entry", "is not allowed in the tree of an entry")(
    lambda c: with_rows(c, ("100755", b"run.sh", c.put("blob", b"#!/bin/sh\n")))
)
bad("a summary that no hole names", "entry", "no hole refers to it")(
    lambda c: with_rows(c, ("100644", b"summary.md", c.put("blob", b"words")))
)
bad("a blob that no hole names", "entry", "list of holes do not match")(
    lambda c: with_rows(c, ("40000", b"blobs", c.files(("100644", b"0" * 64, b"words"))))
)
bad("files that are no folder", "tree", "is a blob")(
    lambda c: with_rows(c, ("100644", b"files", c.put("blob", b"words")))
)
bad("an entry without a payload", "entry", "expected one payload")(
    lambda c: after(c, c.entry(user(), c.leaf, tree=c.files(("100644", b"summary.md", b"words"))))
)


@bad("an entry's tree with a hundred thousand names", "size", "the tree has")
def _(client: Client) -> str:
    blob = payload_blob(client)
    rows = [("100644", b"%06d" % n, blob) for n in range(100_000)]
    return after(client, client.entry(user(), client.leaf, tree=client.tree(*rows)))


# ---- holes


def with_hole(client: Client, *rows: object, content: bytes = b"words", named: bytes | None = None) -> str:
    """Write an entry with a table of holes and one blob, and return its refspec."""
    digest = hash_of(content)
    table = cbor.encode([[*row] if isinstance(row, tuple) else row for row in rows])  # type: ignore[list-item]
    payload = client.store.read(payload_blob(client))[1]
    stored = StoredPayload(payload, table, ((named or digest, "raw", content),))
    return after(client, client.entry(user(), client.leaf, stored=stored))


WORDS = hash_of(b"words")
bad("a hole behind the end", "entry", "past the end")(lambda c: with_hole(c, (10_000, 0, WORDS, "raw")))
bad("a hole of a negative length", "entry", "expected an offset and a length")(
    lambda c: with_hole(c, (0, -1, WORDS, "raw"))
)
bad("holes out of order", "entry", "out of order")(lambda c: with_hole(c, (9, 0, WORDS, "raw"), (3, 0, WORDS, "raw")))
bad("a hole in an unknown encoding", "entry", "unknown encoding")(lambda c: with_hole(c, (0, 0, WORDS, "gzip")))
bad("a blob that is not what its name says", "entry", "does not match the digest")(
    lambda c: with_hole(c, (0, 0, hash_of(b"other"), "raw"), named=hash_of(b"other"))
)
bad("a hole whose blob is not there", "entry", "list of holes do not match")(
    lambda c: with_hole(c, (0, 0, hash_of(b"other"), "raw"))
)
bad("a table of holes that is none", "entry", "expected a list")(lambda c: with_hole(c))
bad("a small table that makes a gigabyte", "size", "the filled payload has")(
    lambda c: with_hole(c, *[(0, 0, hash_of(bytes(1 << 20)), "raw")] * 1200, content=bytes(1 << 20))
)
bad("a table of holes that is too large", "size", "holes.cbor has")(
    lambda c: with_rows(c, ("100644", b"holes.cbor", c.put("blob", bytes(5 << 20))))
)


# ---- payloads


def with_payload(client: Client, payload: bytes) -> str:
    return after(client, client.entry(user(), client.leaf, payload=payload))


def own(**fields: object) -> bytes:
    body = {"role": "user", "content": [{"type": "text", "text": "more"}]}
    return cbor.encode({"v": 1, "kind": "message", "at": 0, "body": body, "nonce": bytes(16), **fields})  # type: ignore[arg-type]


bad("CBOR that is nested without end", "entry", "CBOR")(lambda c: with_payload(c, b"\x81" * 100_000 + b"\x00"))
bad("CBOR that promises more than there is", "entry", "CBOR")(lambda c: with_payload(c, b"\x9b" + b"\xff" * 8))
bad("CBOR that promises a string of exabytes", "entry", "CBOR")(
    lambda c: with_payload(c, b"\x7b\x7f" + b"\xff" * 7 + b"a")
)
bad("CBOR with a tag", "entry", "CBOR")(lambda c: with_payload(c, b"\xc1" + own()))
bad("CBOR that says a key twice", "entry", "CBOR")(lambda c: with_payload(c, b"\xa2\x61a\x01\x61a\x02"))
bad("CBOR with something behind it", "entry", "the canonical encoding")(lambda c: with_payload(c, own() + b"\x00"))
bad("CBOR that shares itself", "entry", "CBOR")(lambda c: with_payload(c, b"\xd8\x1c\x81\xd8\x1d\x00"))
bad("a role that is a number", "entry", "expected text")(lambda c: with_payload(c, own(body={"role": 7})))
bad("a role that nobody has", "entry", "unknown role")(lambda c: with_payload(c, own(body={"role": "god"})))
bad("a nonce that is too short", "entry", "expected 16 bytes")(lambda c: with_payload(c, own(nonce=b"")))
bad("a payload of ours that is too large", "size", "the limit is 16,777,216")(
    lambda c: with_payload(c, bytes((16 << 20) + 1))
)


# ---- commits


def with_commit(client: Client, old: bytes, new: bytes) -> str:
    return after(client, client.entry(user(), client.leaf, old=old, new=new))


COMMITTER = b"committer gitsession <gitsession@gitsession> 1800000000 +0000"
bad("a message that says something else", "entry", "the commit message does not match")(
    lambda c: with_commit(c, b"user: more", b"user: less")
)
bad("an author that the payload does not say", "entry", "the author is")(
    lambda c: with_commit(c, b"author user <user@gitsession>", b"author assistant <assistant@gitsession>")
)
bad("an author with a real address", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, b"author user <user@gitsession>", b"author user <user@example.org>")
)
bad("a time that the payload does not say", "commit", "the committer time is not the later")(
    lambda c: with_commit(c, b"1800000000", b"1800000001")
)
bad("a committer's time of its own", "commit", "the committer time is not the later")(
    lambda c: with_commit(c, COMMITTER, COMMITTER.replace(b"1800000000", b"1900000000"))
)
bad("both times altered", "entry", "the times of the commit do not match")(
    lambda c: with_commit(
        c,
        b"1800000000 +0000\n" + COMMITTER,
        b"1900000000 +0000\n" + COMMITTER.replace(b"1800000000", b"1900000000"),
    )
)
bad("another time zone", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, COMMITTER, COMMITTER.replace(b"+0000", b"+0200"))
)
bad("a committer with a name", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, b"committer gitsession", b"committer Mallory")
)
bad("a signature in the commit", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, COMMITTER, COMMITTER + b"\ngpgsig -----BEGIN SSH SIGNATURE-----\n -----END-----")
)
bad("another encoding of the message", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, COMMITTER, COMMITTER + b"\nencoding latin1")
)
bad("a chain that is another's", "entry", "the chain digest does not match")(lambda c: with_chain(c))
bad("three parents", "commit", "not formatted as an entry")(
    lambda c: with_commit(c, b"\nauthor", f"\nparent {c.root.oid}\nparent {c.root.oid}\nauthor".encode())
)
bad("a merge", "parents", "a second parent")(lambda c: after(c, c.entry(user(), c.leaf, second_parent=c.root.oid)))
bad("a message of megabytes", "size", "the commit has")(
    lambda c: with_commit(c, b"user: more", b"user: more" + b"e" * 1_000_000)
)


def with_chain(client: Client) -> str:
    good, other = (client.commit(client.entry(user(text), client.leaf)) for text in ("more", "other"))
    ours, theirs = (next(line for line in data.split(b"\n") if line[:5] == b"Chain") for data in (good, other))
    return with_commit(client, ours, theirs)


@bad("a payload that was changed afterwards", "entry", "the chain digest does not match")
def _(client: Client) -> str:
    other = client.entry(user("other"), client.leaf)
    return after(client, client.entry(user(), client.leaf, tree=other.tree))


@bad("an entry put behind another one", "entry", "the chain digest does not match")
def _(client: Client) -> str:
    leaf = client.leaf
    return "+" + with_commit(client, f"parent {leaf.oid}".encode(), f"parent {leaf.parent}".encode())


@bad("good entries behind a bad one", "entry", "the commit message does not match")
def _(client: Client) -> str:
    at = client.entry(user(), client.leaf, old=b"user: more", new=b"user: less")
    for n in range(3):
        at = client.entry(user(str(n)), at)
    return after(client, at)


@bad("somebody's own commit behind an entry", "commit", "not an entry")
def _(client: Client) -> str:
    tree = client.git("rev-parse", f"{client.leaf.oid}^{{tree}}")
    return f"{client.git('commit-tree', '-m', 'work', '-p', client.leaf.oid, tree)}:{client.ref()}"


@bad("an entry behind somebody's own commit", "commit", "not an entry")
def _(client: Client) -> str:
    tree = client.git("rev-parse", f"{client.leaf.oid}^{{tree}}")
    at = client.git("commit-tree", "-m", "work", "-p", client.leaf.oid, tree)
    return with_commit(client, f"parent {client.leaf.oid}".encode(), f"parent {at}".encode())


@bad("codes for the terminal, of an agent that nobody knows", "commit", "control characters")
def _(client: Client) -> str:
    source = b"Source: nobody/x 1\n"
    node = client.entry(user(), client.leaf, old=b"\nChain", new=b"\n" + source + b"Chain")
    data = client.commit(node).replace(b"user: more", b"user: \x1b]0;owned\x07more")
    return f"{client.put('commit', data)}:{client.ref()}"


# ---- refs

bad("a branch that is no session's", "ref", "not a ref of a store")(lambda c: f"{c.leaf.oid}:refs/heads/feature")
bad("a tag", "ref", "not a ref of a store")(lambda c: f"{c.leaf.oid}:refs/tags/v1")
bad("notes", "ref", "not a ref of a store")(lambda c: f"{c.leaf.oid}:refs/notes/commits")
bad("a ref of ours that nobody knows", "ref", "not a ref of a store")(
    lambda c: f"{c.leaf.oid}:refs/heads/gitsession/news"
)
bad("a session by another name", "ref", "not the name of a session's branch")(
    lambda c: f"{c.leaf.oid}:refs/heads/sessions/mine/main"
)
bad("a branch in capitals", "ref", "not the name of a session's branch")(lambda c: f"{c.leaf.oid}:{c.ref('Main')}")
bad("a branch below a branch", "ref", "not the name of a session's branch")(
    lambda c: f"{c.leaf.oid}:{c.ref('side')}/below"
)
bad("a branch in place of a session's folder", "ref", "not the name of a session's branch")(
    lambda c: f"{c.leaf.oid}:refs/heads/sessions/{c.sid[:-1]}b"
)
bad("a branch that Windows takes for a device", "ref", "a device")(lambda c: f"{c.leaf.oid}:{c.ref('con')}")


@bad("a tag object on a branch", "tip", "expected a commit, found a tag")
def _(client: Client) -> str:
    tag = f"object {client.leaf.oid}\ntype commit\ntag v1\ntagger a <a> 0 +0000\n\n".encode()
    return f"{client.put('tag', tag)}:{client.ref('tagged')}"


bad("a file on a branch", "tip", "expected a commit, found a blob")(lambda c: f"{payload_blob(c)}:{c.ref('blob')}")
bad("a rewind", "rewind", "not a fast-forward along first parents")(lambda c: f"+{c.root.oid}:{c.ref()}")
bad("a line put in place of another", "rewind", "not a fast-forward along first parents")(
    lambda c: f"+{c.entry(user('instead'), c.root).oid}:{c.ref()}"
)
bad("a branch that is deleted", "delete", "cannot be deleted")(lambda c: f":{c.ref()}")


@bad("a line that only speaks of what it takes the place of", "rewind", "not a fast-forward along first parents")
def _(client: Client) -> str:
    """git would accept this as a fast-forward, because the old tip is the second parent."""
    summary = kinds.BranchSummary(at_ms=1_800_000_000_000, summary="left")
    return f"{client.entry(summary, client.root, second_parent=client.leaf.oid).oid}:{client.ref()}"


# ---- main


@bad("a main that is no store's", "main", "no longer be a store")
def _(client: Client) -> str:
    tree = client.files(("100644", b"README.md", b"hello"))
    return f"{client.git('commit-tree', '-m', 'x', '-p', create.first_commit()[0], tree)}:{create.MAIN}"


@bad("a store of a later format", "main", "format 99 is newer")
def _(client: Client) -> str:
    tree = client.files(("100644", create.MARKER.encode(), b'{"format": 99}'))
    return f"{client.git('commit-tree', '-m', 'x', '-p', create.first_commit()[0], tree)}:{create.MAIN}"


@bad("a main that begins anew", "rewind", "not a fast-forward")
def _(client: Client) -> str:
    tree = client.files(("100644", create.MARKER.encode(), b'{"format": 1}'))
    return f"+{client.git('commit-tree', '-m', 'x', tree)}:{create.MAIN}"


@pytest.mark.parametrize("ref", [create.MAIN, "refs/heads/code", "refs/heads/code/gitsession/archive"])
def test_bad_entry_before_a_commit_of_another_ref_is_rejected(tmp_path: Path, ref: str) -> None:
    """A ref that is no session's is accepted although its history contains the entry."""
    client = Client.begin(tmp_path / "client.git")
    made = hub(tmp_path / "hub.git", strict=False)
    git(made, "config", "gitsession.allowRefs", "refs/heads/code*")
    assert push(client.path, made, client.ref()).returncode == 0
    evil = client.entry(user(), client.leaf, more=(("120000", b"entry.cbor", client.put("blob", b"/etc/passwd")),))
    marker = client.files(("100644", create.MARKER.encode(), b'{"format": 1}'))
    parents = ("-p", create.first_commit()[0], "-p", evil.oid)
    earlier = client.git("commit-tree", "-m", "earlier", *parents, marker)
    assert push(client.path, made, f"{earlier}:{ref}").returncode == 0
    later = client.git("commit-tree", "-m", "later", "-p", earlier, marker)
    other = refs.leaf(begun(client.store, "other").id)
    client.store.flush()
    done = push(client.path, made, f"{later}:{ref}", other, f"{evil.oid}:{client.ref()}")
    assert done.returncode != 0
    assert "mode 120000" in done.stderr


# ---- positions of entries

bad("a message on meta", "place", "'message' is not allowed on 'meta'")(
    lambda c: f"{c.entry(user(), c.on('meta')).oid}:{c.ref('meta')}"
)
bad("a message on files", "place", "'message' is not allowed on 'files'")(
    lambda c: f"{c.entry(user(), c.on('files')).oid}:{c.ref('files')}"
)
bad("a checkpoint on a branch", "place", "'checkpoint' is not allowed on 'main'")(
    lambda c: after(c, c.entry(checkpoint(), c.leaf))
)
bad("an attachment on a branch", "place", "'attachment' is not allowed on 'main'")(
    lambda c: after(c, c.entry(kinds.Attachment(at_ms=0, name="blob", data=b""), c.leaf))
)
bad("a seal on a branch", "place", "'seal' is not allowed on 'main'")(
    lambda c: after(
        c,
        c.entry(
            kinds.Seal(at_ms=0, session="s", branch="main", leaf="l", entries=1, format="ssh", signature=b""), c.leaf
        ),
    )
)
bad("checkpoints that begin behind a message", "place", "'message' is not allowed on 'files-x'")(
    lambda c: f"{c.entry(checkpoint(), c.leaf).oid}:{c.ref('files-x')}"
)
bad("meta that is a branch", "place", "'message' is not allowed on 'meta'")(lambda c: meta_of_another(c))
bad("a line that begins with a message", "root", "must begin with a session")(
    lambda c: f"{c.entry(user()).oid}:{c.ref('other')}"
)


def meta_of_another(client: Client) -> Refspecs:
    """Create a new session whose ``meta`` is its ``main``."""
    session = begun(client.store, "new")
    client.store.flush()
    leaf = client.store.ref(refs.leaf(session.id))
    return [f"{leaf}:{refs.leaf(session.id)}", f"{leaf}:{refs.meta(session.id)}"]


@bad("two roots", "root", "two roots")
def _(client: Client) -> str:
    root = client.entry(kinds.SessionHeader(at_ms=0, agent="agent", view=1))
    return f"{client.entry(user(), root).oid}:{client.ref('side')}"


@bad("another session's line by this one's name", "root", "two roots")
def _(client: Client) -> str:
    session = begun(client.store, "another")
    client.store.flush()
    return f"{client.store.ref(refs.leaf(session.id))}:{client.ref('side')}"


@bad("an imported session by another one's name", "root", "another id")
def _(client: Client) -> str:
    root = client.entry(kinds.SessionHeader(at_ms=0, agent="pi", source_id="x", view=1))
    return f"{client.entry(user(), root).oid}:{refs.leaf('19700101-aaaaaaaaaaaaa')}"


@bad("a session by a second name", "root", "another session begins with the same entry")
def _(client: Client) -> str:
    return f"{client.ref()}:{refs.leaf('20260201-aaaaaaaaaaaaa')}"


@bad("a session that goes on, by a second name", "root", "another session begins with the same entry")
def _(client: Client) -> str:
    return f"{client.entry(user(), client.leaf).oid}:{refs.leaf('20260201-aaaaaaaaaaaaa')}"


@bad("one new session by two names", "root", "another session begins with the same entry")
def _(client: Client) -> list[str]:
    leaf = client.entry(user(), client.entry(kinds.SessionHeader(at_ms=0, agent="agent", view=1))).oid
    return [f"{leaf}:{refs.leaf(f'19700101-{letter * 13}')}" for letter in "ab"]


@bad("an imported session by both of its names", "root", "another session begins with the same entry")
def _(client: Client) -> list[str]:
    leaf = client.entry(user(), client.entry(kinds.SessionHeader(at_ms=0, agent="pi", source_id="x", view=1))).oid
    sids = refs.imported_sids("pi", "x", 0)
    return [f"{leaf}:{refs.leaf(sid)}" for sid in sids]


@bad("a session by the name of another day", "root", "another id")
def _(client: Client) -> str:
    root = client.entry(kinds.SessionHeader(at_ms=0, agent="agent", view=1))
    return f"{client.entry(user(), root).oid}:{refs.leaf('19700102-aaaaaaaaaaaaa')}"


FORK = "20270115-aaaaaaaaaaaaa"


def forked(client: Client) -> Node:
    """Write the ``fork`` entry of a session that continues ``main``."""
    fork = kinds.Fork(session=FORK, agent="agent", view=1, at_ms=1_800_000_000_000)
    return client.entry(fork, client.leaf)


@bad("a fork's line on a branch of the session that it was forked from", "root", f"begins session {FORK}")
def _(client: Client) -> str:
    return after(client, client.entry(user(), forked(client)))


@bad("a fork's line as a new branch of the session that it was forked from", "root", "begins session 20270115-")
def _(client: Client) -> Refspecs:
    fork = forked(client).oid
    return [f"{fork}:{client.ref('side')}", f"{fork}:{refs.leaf(FORK)}"]


@bad("a line of another fork as a branch of a fork", "root", "begins session 20270115-bbbbbbbbbbbbb")
def _(client: Client) -> Refspecs:
    first = forked(client)
    other = kinds.Fork(session="20270115-bbbbbbbbbbbbb", agent="agent", view=1, at_ms=1_800_000_000_000)
    return [f"{first.oid}:{refs.leaf(FORK)}", f"{client.entry(other, client.leaf).oid}:{refs.leaf(FORK, 'side')}"]


bad("meta as a branch", "place", "contains entries of 'meta'")(lambda c: f"{c.ref('meta')}:{c.ref('zzz')}")
bad("meta, gone on with, as a branch", "place", "contains entries of 'meta'")(
    lambda c: f"{c.entry(user(), c.on('meta')).oid}:{c.ref('zzz')}"
)


@bad("new lines of meta as a branch", "place", "contains entries of 'meta'")
def _(client: Client) -> Refspecs:
    end = client.entry(kinds.Title(at_ms=1_800_000_000_000, title="Another"), client.on("meta")).oid
    return [f"{end}:{client.ref('meta')}", f"{end}:{client.ref('zzz')}"]


@bad("a second parent that is no entry", "commit", "not an entry")
def _(client: Client) -> str:
    left = client.git("commit-tree", "-m", "work", client.git("rev-parse", f"{client.leaf.oid}^{{tree}}"))
    summary = kinds.BranchSummary(at_ms=1_800_000_000_000, summary="left")
    return after(client, client.entry(summary, client.leaf, second_parent=left))


# ---- limits


@bad("more entries than a push may hold", "limit", "more than 50 new entries")
def _(client: Client) -> str:
    at = client.leaf
    for n in range(51):
        at = client.entry(user(str(n)), at)
    return after(client, at)


# ---- tests of all cases


# ---- the archive


def filed(
    client: Client,
    said: Archive,
    *tips: str,
    before: tuple[str, ...] = (),
    tree: str = "",
    old: bytes = b"",
    new: bytes = b"",
) -> str:
    """Write a commit of the archive that is valid except for the given changes, and return its oid."""
    made, objects = archive_set.tree_of(said)
    for kind, data in objects.values():
        client.put(kind, data)
    data = archive_set.encode(tree or made, len(said), before, 1_800_000_000, tips)
    assert old in data
    return client.put("commit", data.replace(old, new, 1) if old else data)


def listing(client: Client, *ends: tuple[str, str], sid: str = "", turn: int = 1) -> Archive:
    sid = sid or client.sid
    return Archive({sid: turn}, {sid: frozenset(ends)})


def rows(client: Client, text: str, name: bytes = b"") -> str:
    """Write the tree of an archive that contains only ``text``."""
    return client.tree(("100644", name or f"{client.sid[:6]}.tsv".encode(), client.put("blob", text.encode())))


ARCHIVE = {
    "what it does not lead to": (lambda c, end: filed(c, listing(c, ("main", end))), "not reachable from its commit"),
    "less than it leads to": (lambda c, end: filed(c, listing(c), end), "does not list"),
    "a row that is none": (lambda c, end: filed(c, listing(c), tree=rows(c, f"{c.sid} 1\n")), "invalid row"),
    "a turn that is no number": (lambda c, end: filed(c, listing(c), tree=rows(c, f"{c.sid}\t01\n")), "invalid row"),
    "a branch that cannot be": (
        lambda c, end: filed(c, listing(c), end, tree=rows(c, f"{c.sid}\t1\n{c.sid}/Main\t{end}\n")),
        "invalid row",
    ),
    "an end of a session that it does not say is archived": (
        lambda c, end: filed(c, listing(c), end, tree=rows(c, f"{c.sid}/main\t{end}\n")),
        "but no archive count",
    ),
    "sessions under another month": (
        lambda c, end: filed(c, listing(c), tree=rows(c, f"{c.sid}\t1\n", b"197001.tsv")),
        "not the canonical form",
    ),
    "a file that has no place": (
        lambda c, end: filed(c, listing(c), tree=rows(c, f"{c.sid}\t1\n", b"evil")),
        "unexpected file 'evil' in the archive set",
    ),
    "words of its own": (
        lambda c, end: filed(c, listing(c, ("main", end)), end, old=b"1 archived", new=b"9 archived"),
        "not the canonical form",
    ),
    "somebody else's commit": (lambda c, end: end, "not the canonical form of an archive commit"),
    "less than before": (
        lambda c, end: filed(c, listing(c), before=(filed(c, listing(c, ("main", end), turn=2), end),)),
        "lacks elements of its parents",
    ),
    "less, having been joined": (
        lambda c, end: filed(c, listing(c), before=(filed(c, listing(c)), filed(c, listing(c, ("main", end)), end))),
        "lacks elements of its parents",
    ),
}

for _name, (_make, _says) in ARCHIVE.items():
    bad(f"an archive of {_name}", "archive", _says)(
        lambda c, make=_make: f"{make(c, c.entry(user('to be archived'), c.leaf).oid)}:{refs.ARCHIVE}"
    )


@bad("an archive of an entry that is none", "commit", "not an entry")
def _(client: Client) -> str:
    end = create.first_commit()[0]
    return f"{filed(client, listing(client, ('main', end)), end)}:{refs.ARCHIVE}"


@bad("an archive of an entry that is bad", "entry", "main: ")
def _(client: Client) -> str:
    end = client.entry(user("words"), client.leaf, new=b"user: other", old=b"user: words").oid
    return f"{filed(client, listing(client, ('main', end)), end)}:{refs.ARCHIVE}"


@bad("an archive of another session's line", "root", "another id")
def _(client: Client) -> str:
    header = kinds.SessionHeader(at_ms=1_800_000_000_000, agent="pi", source_id="somebody's")
    end = client.entry(header).oid
    return f"{filed(client, listing(client, ('main', end), sid='20260201-aaaaaaaaaaaaa'), end)}:{refs.ARCHIVE}"


@bad("an archive that a line of checkpoints is a branch of", "place", "is not allowed on")
def _(client: Client) -> str:
    end = client.entry(checkpoint(), client.on("files")).oid
    return f"{filed(client, listing(client, ('main', end)), end)}:{refs.ARCHIVE}"


def test_refusal_names_the_first_faulty_entry(client: Client, server: tuple[Path, object]) -> None:
    nodes = [client.leaf]
    for number in range(9):
        fault = {"old": b"Entry: message", "new": b"Entry: massage"} if number in (4, 6) else {}
        nodes.append(client.entry(user(f"{number}"), nodes[-1], **fault))
    valid, invalid = client.ref("valid"), client.ref("invalid")
    done = push(client.path, server[0], f"{nodes[4].oid}:{valid}", f"{nodes[9].oid}:{invalid}")
    told = [line for line in done.stderr.splitlines() if "refused refs/" in line]
    assert [line for line in told if f"refused {invalid} at {nodes[5].oid[:10]}: " in line] == told != []


@pytest.mark.promise("P34")
@pytest.mark.parametrize("name", BAD)
def test_invalid_push_is_rejected_with_its_reason_and_leaves_nothing(
    name: str, client: Client, server: tuple[Path, object], faults: Faults
) -> None:
    wanted = BAD[name]
    refspecs = wanted.make(client)
    place, before = server
    with faults.one():
        done = push(client.path, place, *([refspecs] if isinstance(refspecs, str) else refspecs))
        assert done.returncode == 1, done.stderr
        told = [line for line in done.stderr.splitlines() if "gitsession: refused refs/" in line]
        assert any(wanted.says in line and f"[{wanted.rule}]" in line for line in told), done.stderr
        assert "pre-receive hook declined" in done.stderr
        assert "Traceback" not in done.stderr
        assert everything_in(place) == before


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 40
