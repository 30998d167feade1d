"""Tests of pages in Chromium: filters, links, keys, narrow screens, hostile text, accessibility, and large sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsers import Browser, axe, browser
from builders import Clock
from pages import HOSTILE, conversation, hostile_session
from served import serving

from gitsession import Message, Session, Store
from gitsession.model.blocks import Text, ToolCall
from gitsession.web import served_sessions, transcript
from gitsession.web.server import WebServer

__all__ = ["browser"]


def written(store: Store, session: Session, folder: Path) -> str:
    """Export a session, and return the address of the file."""
    path = folder / f"{session.id}.html"
    path.write_bytes(store.export(session.id, to="html").data)
    return path.as_uri()


def opened(browser: Browser, url: str, width: int = 1280, height: int = 900) -> None:
    browser.get("about:blank")  # a change of only the fragment would not load the page
    browser.scripts(True)
    browser.resize(width, height)
    browser.problems(), browser.requests()
    browser.get(url)


def test_page_is_shown_and_requests_nothing(browser: Browser, store: Store, tmp_path: Path) -> None:
    opened(browser, written(store, conversation(store), tmp_path))
    assert browser.title == "A bug"
    assert len(browser.visible()) == 10
    assert browser.run("document.querySelector('img').naturalWidth") == 2
    colors = set()
    for scheme in ("light", "dark"):
        browser.color_scheme(scheme)
        colors.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    browser.color_scheme("light")
    assert len(colors) == 2
    assert (browser.problems(), browser.requests()) == ([], [])


@pytest.mark.parametrize("with_scripts", [True, False])
def test_filters_need_no_script(browser: Browser, store: Store, tmp_path: Path, with_scripts: bool) -> None:
    session = conversation(store)
    opened(browser, written(store, session, tmp_path))
    browser.scripts(with_scripts)
    browser.refresh()
    for name, count in (("no-tools", 7), ("prompts", 3), ("labelled", 1), ("all", 10)):
        browser.find_element("css selector", f"label[for=f-{name}]").click()
        assert len(browser.find_elements("css selector", ".entry")) == 10
        shown = [each for each in browser.find_elements("css selector", ".entry") if each.is_displayed()]
        assert (name, len(shown)) == (name, count)
    browser.scripts(True)


def test_every_part_is_readable_without_scripts(
    browser: Browser, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 2)
    opened(browser, written(store, conversation(store), tmp_path))
    browser.scripts(False)
    browser.refresh()
    assert len(browser.find_elements("css selector", ".entry")) == 10
    assert "In another way." in browser.find_element("tag name", "main").text
    browser.scripts(True)


def test_link_to_an_entry_of_an_unloaded_part(
    browser: Browser, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 50)
    session = store.new_session(agent="pi")
    for number in range(6000):  # more than are loaded at once
        session.append(Message.user(f"prompt {number}"))
    target = session.resolve("leaf~100").oid
    url = written(store, session, tmp_path)
    for prefix in (target[:12], target[:7], target):
        opened(browser, f"{url}#e-{prefix}")
        browser.wait(lambda: browser.run("document.querySelector('.entry.current')"))
        assert browser.run("document.querySelector('.entry.current').id") == f"e-{target[:12]}"
        box = browser.run("(r => [r.top, r.bottom])(document.querySelector('.entry.current').getBoundingClientRect())")
        assert 0 <= box[0] < box[1] <= 900
        assert len(browser.visible()) < 1000
    opened(browser, f"{url}#e-<img src=x>")
    assert browser.problems() == []


def test_keys_move_through_the_shown_entries(browser: Browser, store: Store, tmp_path: Path) -> None:
    session = conversation(store)
    opened(browser, written(store, session, tmp_path))
    ids = [f"e-{node.oid[:12]}" for node in session.history()[1:]]

    def current() -> str | None:
        return browser.run("document.querySelector('.entry.current')?.id")

    browser.press("j")
    browser.wait(lambda: current() == ids[0])
    browser.press("jjk")
    browser.wait(lambda: current() == ids[1])
    assert browser.current_url.endswith(f"#{ids[1]}")
    browser.press("3")
    assert len(browser.visible()) == 3
    browser.press("j")
    browser.wait(lambda: current() == ids[6])
    browser.press("1G")
    browser.wait(lambda: current() == browser.visible()[-1])
    browser.press("g")
    browser.wait(lambda: current() == ids[0])
    assert browser.run("document.getElementById('tree').offsetWidth") > 0
    browser.press("t")
    assert browser.run("document.getElementById('tree').offsetWidth") == 0
    browser.press("/")
    assert browser.run("document.activeElement.id") == "find"
    browser.press("picture")
    shown = "[...document.querySelectorAll('#tree li')].filter(e => e.offsetHeight).map(e => e.textContent)"
    browser.wait(lambda: browser.run(shown) == ["See this picture"])
    browser.press("\ue00c")  # Escape
    browser.wait(lambda: len(browser.run(shown)) == 5)
    browser.press("?")
    assert browser.run("document.getElementById('help').open") is True
    browser.press("\ue00c")
    assert browser.run("document.getElementById('help').open") is False


def test_narrow_screen_does_not_scroll_sideways(browser: Browser, store: Store, tmp_path: Path) -> None:
    session = conversation(store)
    wide = "x" * 3000 + " " + "| a " * 60 + "\n\n```\n" + "y" * 3000 + "\n```\n"
    session.append(Message.assistant([Text(wide), ToolCall("9", "bash", {"command": wide})]))
    opened(browser, written(store, session, tmp_path), width=375, height=812)
    assert browser.run("document.documentElement.scrollWidth") <= 375
    assert browser.run("document.getElementById('tree').offsetHeight") == 0
    browser.find_element("css selector", "label[for=toggle-tree]").click()
    assert browser.run("document.getElementById('tree').offsetHeight") > 0
    assert browser.run("document.documentElement.scrollWidth") <= 375
    browser.find_element("link text", "See this picture").click()
    browser.wait(lambda: browser.run("document.querySelector('.entry.current')"))
    assert browser.run("document.getElementById('tree').offsetHeight") == 0


def test_hostile_text_runs_no_script_and_requests_nothing(browser: Browser, store: Store, tmp_path: Path) -> None:
    for text in HOSTILE.values():
        opened(browser, written(store, hostile_session(store, text), tmp_path))
        assert len(browser.visible()) == 14
        browser.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert browser.run("[document.scripts.length, document.querySelectorAll('main img').length]") == [1, 1]
        assert (browser.problems(), browser.requests()) == ([], [])  # an alert would raise an exception


def test_page_has_no_known_problem_of_accessibility(browser: Browser, store: Store, tmp_path: Path) -> None:
    source = axe()
    url = written(store, conversation(store), tmp_path)
    for scheme in ("light", "dark"):
        opened(browser, url)
        browser.color_scheme(scheme)
        browser.execute_script(source)
        found = browser.execute_async_script("axe.run().then(arguments[0])")["violations"]
        assert [(each["id"], each["nodes"][0]["html"]) for each in found] == []
    browser.color_scheme("light")


def test_page_has_landmarks_headings_and_names(browser: Browser, store: Store, tmp_path: Path) -> None:
    opened(browser, written(store, conversation(store), tmp_path))
    assert browser.run("['main', 'nav', 'h1'].map(name => document.querySelectorAll(name).length)") == [1, 1, 1]
    assert browser.run("document.documentElement.lang") == "en"
    for element in browser.find_elements("css selector", "input, button, a, img, nav, dialog"):
        if element.is_displayed():
            assert element.accessible_name.strip()


def test_link_to_an_entry_of_a_later_part_needs_no_script(
    browser: Browser, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 50)
    session = store.new_session(agent="pi")
    for number in range(1000):
        session.append(Message.user(f"prompt {number}"))
    url = written(store, session, tmp_path)
    opened(browser, "about:blank")
    browser.scripts(False)
    browser.get(f"{url}#e-{session.resolve('leaf~100').oid[:12]}")
    browser.scripts(True)
    bounds = "(r => [r.top, r.bottom])(document.querySelector(':target').getBoundingClientRect())"
    browser.wait(lambda: browser.run(bounds)[1])  # the part of the target has no layout before it is near the screen
    box = browser.run(bounds)
    assert 0 <= box[0] < box[1] <= 900
    # 100,000 entries open in 7 s of processor time if a part far from the screen is not laid out, else in 29 s.
    assert browser.run("getComputedStyle(document.querySelector('.entries > noscript')).contentVisibility") == "auto"


def test_hundred_thousand_entries_open_in_parts(browser: Browser, tmp_path: Path) -> None:
    """Repeat the parts of a page with 1,000 entries, because a session of 100,000 takes a minute to write.

    With few visible entries, it opens in a second.
    """
    with Store.create(tmp_path / "store.git", clock=Clock()) as store:
        session = store.new_session(agent="pi", cwd="/work")
        for number in range(250):
            call = ToolCall(f"c{number}", "bash", {"command": f"pytest -q tests/test_{number}.py"})
            session.append(Message.user(f"Please look at module {number} and fix the *bug*."))
            session.append(Message.assistant([Text(f"I'll run the tests of `{number}`.\n\n- one\n- two"), call]))
            session.append(Message.tool(call, "....\n" * 20 + "passed"))
            session.append(Message.assistant("Done."))
        html = store.export(session.id, to="html").data.decode()
    head, _, rest = html.partition('<div class="part entries"')
    parts, _, tail = rest.rpartition("</section>")
    first, *later = ('<div class="part entries"' + parts).split('<div class="part entries"')[1:]
    path = tmp_path / "large.html"
    with path.open("w") as file:
        file.write(f'{head}<div class="part entries"{first}')
        for number in range(125):
            for part in later:
                file.write('<div class="part entries"' + part.replace('id="e-', f'id="e-{number:03x}'))
        file.write(f"</section>{tail}")
    assert path.read_text().count('<article class="entry') >= 100_000
    opened(browser, path.as_uri())
    assert len(browser.visible()) < 2000
    browser.press("G")
    browser.wait(lambda: browser.run("document.querySelector('.entry.current')"))
    assert len(browser.visible()) < 4000


# ---- the server


@pytest.fixture
def server(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebServer]:
    monkeypatch.setattr(transcript, "PART_ENTRIES", 10)
    monkeypatch.setattr(served_sessions, "INLINE_ENTRIES_MAX", 20)
    with serving(store) as server:
        yield server


def test_new_entries_appear_while_an_agent_works(browser: Browser, store: Store, server: WebServer) -> None:
    session = conversation(store)
    opened(browser, server.address)
    browser.find_element("link text", "A bug").click()
    browser.wait(lambda: len(browser.visible()) == 10)
    session.append(Message.user("And <b>now</b>?"))
    browser.wait(lambda: len(browser.visible()) == 11)
    assert "And <b>now</b>?" in browser.find_element("css selector", "main section").text
    assert "And <b>now</b>?" in browser.find_element("id", "tree").text
    late = session.branch("late", at="leaf~4")
    late.append(Message.user("Another attempt"))
    browser.wait(lambda: len(browser.visible()) == 12)
    assert "Branch late" in browser.find_element("tag name", "main").text
    assert browser.problems() == []
    assert {url.partition("/session")[0] for url in browser.requests()} <= {
        server.origin + "/",
        server.address,
        server.origin,
    }


def test_parts_of_a_long_session_are_fetched(browser: Browser, store: Store, server: WebServer) -> None:
    session = store.new_session(agent="pi")
    for number in range(60):
        session.append(Message.user(f"prompt {number}"))
    target = session.resolve("leaf").oid[:12]
    opened(browser, server.address)
    browser.get(f"{server.origin}/session/{session.id}#e-{target}")
    browser.wait(lambda: browser.run("document.querySelector('.entry.current')?.id") == f"e-{target}")
    browser.wait(lambda: len(browser.visible()) == 60)
    assert browser.problems() == []


@pytest.fixture
def addresses(store: Store) -> list[str]:
    """Return the pages of a store with a session whose name and paths are long."""
    session = conversation(store)
    session.rename("w" * 200)
    call = ToolCall("3", "write", {"path": f"/work/{'d' * 100}/{'f' * 100}.py", "content": "x = 1\n"})
    session.append(Message.assistant([call], usage={"input": 123_456_789, "output": 1_234_567}, model="m" * 60))
    found = "/work/a.py"
    return [
        "/", "/search?q=bug", f"/session/{session.id}", "/nothing", f"/files?session={session.id}", "/stats?by=model",
        f"/files/history?path={found}", f"/files/lines?path={found}", f"/stats?by=session&session={session.id}",
    ]  # fmt: skip


@pytest.mark.parametrize("width", [375, 1280])
def test_pages_do_not_scroll_sideways(browser: Browser, server: WebServer, addresses: list[str], width: int) -> None:
    opened(browser, server.address, width=width, height=812)
    for path in addresses:
        browser.get(server.origin + path)
        assert browser.run("document.documentElement.scrollWidth") <= width, path
    assert [each for each in browser.problems() if "/nothing" not in each and "favicon" not in each] == []


def test_pages_of_the_server_have_no_known_problem_of_accessibility(
    browser: Browser, server: WebServer, addresses: list[str]
) -> None:
    source = axe()
    opened(browser, server.address)
    for scheme in ("light", "dark"):
        browser.color_scheme(scheme)
        for path in addresses:
            browser.get(server.origin + path)
            browser.execute_script(source)
            found = browser.execute_async_script("axe.run().then(arguments[0])")["violations"]
            assert [(path, each["id"], each["nodes"][0]["html"]) for each in found] == []
    browser.color_scheme("light")


def test_pages_of_the_server_need_no_mouse_and_no_script(
    browser: Browser, store: Store, server: WebServer, addresses: list[str]
) -> None:
    opened(browser, server.address)
    browser.scripts(False)
    browser.get(server.origin + "/files?text=a.py")
    browser.scripts(True)

    def focus(text: str) -> None:
        for _ in range(20):
            browser.press("\ue004")  # Tab
            if browser.switch_to.active_element.text == text:
                return
        raise AssertionError(f"no key leads to {text!r}")

    focus("/work/a.py")
    browser.press("\ue007")  # Enter
    browser.wait(lambda: "/files/history" in browser.current_url)
    focus("Fix the *bug*")
    browser.press("\ue007")
    browser.wait(lambda: browser.run("document.querySelector('.entry.current')"))
    browser.run("scrollTo(0, 0)")
    browser.find_element("link text", "Changed files").click()
    assert "/files?session=" in browser.current_url
    browser.find_element("link text", "Statistics").click()
    browser.find_element("css selector", "#by option:last-child").click()
    browser.find_element("css selector", "main form button").click()
    browser.wait(lambda: "by=tool" in browser.current_url)
    assert [each.text for each in browser.find_elements("css selector", "tbody th")] == ["write", "edit", "bash"]
