"""Tests of pages and exports with texts that were cut in a secret: no part of the secret is shown."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock
from secret_shapes import Shape
from served import Client, serving

from gitsession import Message, Session, Store
from gitsession.model.blocks import ToolCall

SECRET = Shape("ghp_{an:36}").text
KEY = "\n".join(["-----BEGIN PRIVATE KEY-----", *("findline" + Shape("{an:56}", n).text for n in range(12))])
KEY += "\n-----END PRIVATE KEY-----"
BEGUN = "Please use this one, it is the token of the deploy: "
"""Text before a secret, so that the subject of the entry is cut in the secret."""


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session in a store that does not redact new entries."""
    Store.create(tmp_path / "store.git", clock=Clock()).close()
    subprocess.run(["git", "-C", tmp_path / "store.git", "config", "gitsession.redact", "false"], check=True)
    with Store.open(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi", cwd=str(tmp_path))
        session.append(Message.user(BEGUN + SECRET))
        call = ToolCall("c", "write", {"path": str(tmp_path / "a.py"), "content": "x\n"})
        session.append(Message.assistant([call]))
        session.append(Message.tool(call, "done"))
        answer = session.append(Message.assistant(BEGUN + SECRET))
        session.label(answer, "answer")
        session.append(Message.user(f"Some text\n{KEY}"))
        yield session


def parts(secret: str, size: int = 8) -> set[str]:
    return {secret[at : at + size] for at in range(len(secret) - size + 1)}


def check_hidden(text: str) -> None:
    assert "Please use this one" in text or "findline" in text or "withheld" in text
    assert [part for part in parts(SECRET) if part in text] == []
    assert [part for part in parts(KEY.split("\n")[3].removeprefix("findline")) if part in text] == []


PAGES = [
    "/", "/search?q=token", "/search?q=findline*", "/session/{sid}", "/files/history?path={path}",
    "/stats?by=session", "/stats?session={sid}",
]  # fmt: skip


@pytest.mark.parametrize("address", PAGES)
def test_page_has_no_part_of_a_secret(session: Session, tmp_path: Path, address: str) -> None:
    with Store.open(tmp_path / "store.git") as store, serving(store) as server:
        assert SECRET[:8] in store.sessions()[0].name, "the name was cut in the secret"
        check_hidden(Client(server).ask(address.format(sid=session.id, path=tmp_path / "a.py"))[2])


def test_html_export_has_no_part_of_a_secret(session: Session, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.git") as store:
        check_hidden(store.export(session.id, to="html").data.decode())
