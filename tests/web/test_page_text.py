"""Tests of the conversion of text to HTML: it stays text, whatever it contains."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pages import HOSTILE, Page, assert_harmless

from gitsession.model.code import lexer_for, lexer_named
from gitsession.web import text


@pytest.mark.parametrize("source", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_stays_text(source: str) -> None:
    fence = f"```{source}\n{source}\n```\n| {source} |\n|-|\n| {source} |\n"
    for html in (text.markdown(source), text.markdown(fence), text.code(source, lexer_named("html"))):
        page = assert_harmless(html)
        assert page.all("script") == page.all("style") == page.all("img") == []
        html.encode()  # no lone surrogates
        assert not set("\x00\x1b\u202e\u2066\u200b\ufeff") & set(html)


@given(st.text(st.sampled_from("<>&\"'`*_[]()!#|-+~\\/:=\n\t \x1b\u202ea1jJ")) | st.text())
def test_any_text_stays_text(source: str) -> None:
    for html in (text.markdown(source), text.code(source, lexer_for("a.html")), text.diff(["+" + source], "a.js")):
        page = assert_harmless(html)
        assert page.all("script") == page.all("img") == []


@given(st.lists(st.text("ab <>&'\"\\\t{}()=#/*"), max_size=8))
def test_code_keeps_every_character(lines: list[str]) -> None:
    source = "\n".join(lines)
    for name in ("a.py", "a.html", "a.md", "Makefile", "unknown"):
        assert Page(text.code(source, lexer_for(name))).text == text.visible(source)


def test_markdown_is_rendered() -> None:
    html = text.markdown(
        "# A\n\n- *b* `c`\n\n| d |\n|---|\n| e |\n\n[f](https://g.h) <https://i.j>\n\n```python\nif k: 1\n```"
    )
    page = Page(html)
    assert [tag for tag, _ in page.elements if tag in ("h1", "li", "em", "code", "table", "pre")] == [
        "h1", "li", "em", "code", "table", "pre", "code",
    ]  # fmt: skip
    assert [found["href"] for found in page.all("a")] == ["https://g.h", "https://i.j"]
    assert page.all("a")[0]["rel"] == "noopener noreferrer nofollow"
    assert page.all("span", "k")


@pytest.mark.parametrize("source", ["one line", "two\nlines", "two\n\nparagraphs\n\n\nand a third", ""])
def test_plain_text_is_rendered_as_by_the_markdown_library(source: str) -> None:
    assert text.markdown(source).strip() == text._renderer().render(source).strip()


@pytest.mark.parametrize(
    "url, is_allowed",
    {"https://a.b": True, "HTTP://a.b": True, "mailto:a@b.c": True, "javascript:x": False, "data:text/html,x": False,
     "//a.b/c": False, "/path": False, "file:///etc/passwd": False, "http://[": False}.items(),
)  # fmt: skip
def test_links_have_a_safe_scheme(url: str, is_allowed: bool) -> None:
    assert text.is_allowed(url) == is_allowed


def test_image_in_markdown_becomes_a_link() -> None:
    assert text.markdown("![a picture](https://a.b/c.png)") == (
        '<p><a href="https://a.b/c.png" rel="noopener noreferrer nofollow">a picture</a></p>\n'
    )


def test_lines_of_a_diff_have_the_class_of_their_sign() -> None:
    page = Page(text.diff([" def a():", "-    return 1", "+    return '<b>'"], "a.py"))
    assert page.text == " def a():\n-    return 1\n+    return '<b>'\n"
    assert [len(page.all("span", name)) for name in ("same", "del", "add")] == [1, 1, 1]


def test_control_sequences_are_removed_whole() -> None:
    assert text.visible("\x1b[1;31mred\x1b[0m\tand\x1b]0;title\x07 plain") == "red\tand plain"
