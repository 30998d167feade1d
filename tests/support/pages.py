"""Test helpers for web pages: parsed HTML, hostile texts, and sessions with an entry of every kind."""

from __future__ import annotations

import re
import struct
import zlib
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from gitsession import Compaction, Message, Session, Store
from gitsession.model.blocks import File, Image, Text, Thinking, ToolCall
from gitsession.model.entries import BranchSummary, CustomMessage, Instructions, ModelChange, Permission

HOSTILE = {
    "script": "<script>alert(1)</script>",
    "end of script": "</script><script>alert(1)</script>",
    "end of style": "</style><script>alert(1)</script>",
    "end of noscript": "</noscript><script>alert(1)</script><img src=x onerror=alert(1)>",
    "end of comment": "--><script>alert(1)</script><!--",
    "image": "<img src=x onerror=alert(1)>",
    "svg": "<svg onload=alert(1)><a xlink:href=javascript:alert(1)>x</a></svg>",
    "attribute": '" onmouseover="alert(1)" x=\'',
    "single quotes": "' onfocus='alert(1)' autofocus='",
    "javascript link": "[here](javascript:alert(1)) <javascript:alert(1)> [r][1]\n\n[1]: javascript:alert(1)",
    "javascript link with entities": "[a](java&#115;cript:alert(1)) [b](JaVaScRiPt:alert(1)) [c](&#x6a;avascript:x)",
    "javascript link with a control character": "[a](java\tscript:alert(1)) [b](\x01javascript:alert(1))",
    "data link": "[x](data:text/html,<script>alert(1)</script>)",
    "svg in a data link": "![x](data:image/svg+xml,<svg/onload=alert(1)>) <img src=data:image/svg+xml;base64,PA>",
    "remote image": "![x](http://127.0.0.1:9/x.png) <img src=http://127.0.0.1:9/y.png>",
    "fence": '```"><script>alert(1)</script>\nx\n```',
    "template": "{{ 7 * 7 }} {% for x in y %} ${alert(1)}",
    "entities": "&lt;script&gt;alert(1)&lt;/script&gt; &#60;script&#62;",
    "control sequences": "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07",
    "bidirectional": "\u202egnp.exe \u2066hidden\u2069 \u200b\ufeff",
    "lone surrogate": "a\ud800b\udfff",
    "null": "a\x00b\x0bc\x85d\u2028e",
    "base": "<base href=http://127.0.0.1:9/><meta http-equiv=refresh content=0;url=http://127.0.0.1:9/>",
    "style": "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/>",
    "frame": "<iframe srcdoc='<script>alert(1)</script>'></iframe><object data=x></object>",
    "nested": "> " * 200 + "[" * 500 + "<script>alert(1)</script>",
}


def png(width: int = 2, height: int = 2) -> bytes:
    """Return a black image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" * (1 + 3 * width)) * height
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


class Page(HTMLParser):
    """A parsed page.

    Attributes:
        elements: The names and attributes of all elements.
        text: The text outside of the style sheet and the script.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._inside = ""
        self.feed(str(html))  # not `Markup`, whose parts would be escaped
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("style", "script"):
            self.text += data

    def all(self, tag: str, name: str = "") -> list[dict[str, str]]:
        """Return the attributes of the elements ``tag``, or only of those with the class ``name``."""
        return [
            found for at, found in self.elements if at == tag and (not name or name in found.get("class", "").split())
        ]

    @property
    def entries(self) -> list[str]:
        """The ids of the entries."""
        return [found["id"] for found in self.all("article", "entry")]


_TAGS = frozenset(
    re.findall(
        r"\w+",
        """html head meta title style script body section article header footer main nav h1 h2 h3 h4 h5 h6 p a ol ul li
        dl dt dd div span pre code em strong s del ins blockquote table thead tbody tr th td hr br img details summary
        input label fieldset legend button form dialog kbd time noscript select option mark
        tfoot meter""",
    )
)


def assert_harmless(html: str) -> Page:
    """Fail if a page has an element or an attribute that can run a script or load something. Return the page."""
    page = Page(html)
    assert {tag for tag, _ in page.elements} <= _TAGS
    assert len(page.all("script")) <= 1 and len(page.all("style")) <= 1
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "srcdoc", "srcset")]
        assert urlsplit(attributes.get("href", "")).scheme in ("", "http", "https", "mailto")
        assert attributes.get("src", "data:image/png").startswith("data:image/")
    assert [found for found in page.all("meta") if found.get("http-equiv", "") == "refresh"] == []
    return page


def hostile_session(store: Store, text: str) -> Session:
    """Create a session with ``text`` in every field that a page shows."""
    text = text.encode("utf-8", "replace").decode()  # only imported entries can have lone surrogates
    session = store.new_session(agent="pi", cwd=f"/work/{text.replace(chr(0), '')}")
    call = ToolCall("1", text, {text: text, "n": 1})
    edit = ToolCall("2", "edit", {"path": text, "oldText": "a\n" + text, "newText": "b\n" + text})
    for entry in (
        Message.user(text),
        Message.user([Text(text), Image(png(), text), Image(text.encode(), "image/svg+xml")]),
        Message.assistant([Thinking(text), Text(text), call, edit], model=text, provider=text),
        Message.tool(call, text, is_error=True),
        Message.tool(edit, [Text(text), File(text, text, url=text)]),
        Message(role="shell", command=text, output=text, exit_code=1),
        Message(role="system", content=(Text(text),)),
        Message.assistant([], stop="error", error=text),
        Compaction(summary=text),
        BranchSummary(summary=text),
        CustomMessage(custom_type=text, content=(Text(text),)),
        ModelChange(provider=text, model=text),
        Permission(decision=text),
        Instructions(system_prompt=text, task=text),
    ):
        session.append(entry)
    return session


def conversation(store: Store, **fields: Any) -> Session:
    """Create a session with two branches, a label, an edit, a failed command and an image."""
    session = store.new_session(agent="pi", cwd="/work", **fields)
    run = ToolCall("1", "bash", {"command": "pytest -q"})
    edit = ToolCall("2", "edit", {"path": "/work/a.py", "oldText": "x = 1\n", "newText": "x = 2\n"})
    session.append(Message.user("Fix the *bug*"))
    session.append(Message.assistant([Thinking("Let me think."), Text("I look."), run], model="m", provider="p"))
    session.append(Message.tool(run, "E   1 failed\n\nCommand exited with code 1", is_error=True))
    session.append(Message.assistant([edit], model="m", provider="p"))
    session.append(Message.tool(edit, "Edited a.py"))
    done = session.append(Message.assistant("It is fixed.", model="m", provider="p"))
    session.label(done, "works")
    session.branch("other", at=done)
    session.append(Message.user([Text("See this picture"), Image(png(), "image/png")]))
    session.append(Message.assistant("A black picture.", model="m", provider="p"))
    other = session.on("other")
    other.append(Message.user("Now another way"))
    other.append(Message.assistant("In another way.", model="m", provider="p"))
    session.switch("main")
    session.rename("A bug")
    return session
