"""A browser without a terminal: its keys, and the text on its screen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from textual.pilot import Pilot
from textual.screen import Screen

from gitsession import Session, Store
from gitsession.browse.app import first_screens
from gitsession.browse.browser import Browser
from gitsession.browse.screen import BrowseScreen

NOW_MS = 1_769_904_000_000 + 3_600_000
SECONDS_MAX = 30.0
"""Maximum time to wait for a screen. A loaded machine is slow, and a failing test may take long."""


class Driver:
    """The keys and the screen of a browser in a test."""

    def __init__(self, browser: Browser, pilot: Pilot[Any]) -> None:
        self.browser = browser
        self._pilot = pilot

    @property
    def screen(self) -> Screen[Any]:
        return self.browser.screen

    @property
    def lines(self) -> list[str]:
        """The lines of the screen, without spaces at their ends."""
        return [strip.text.rstrip() for strip in self.browser.screen._compositor.render_strips()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def body(self) -> list[str]:
        """The lines between the title and the status line, without empty lines at the end."""
        return "\n".join(self.lines[1:-2]).rstrip("\n").split("\n")

    @property
    def status(self) -> str:
        return self.lines[-2]

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)
        await self._pilot.pause()

    async def type(self, text: str) -> None:
        await self.press(*("space" if letter == " " else letter for letter in text))

    async def see(self, text: str) -> None:
        """Wait until the screen contains ``text``."""
        await self.until(lambda: text in self.text, lambda: f"{text!r} is not on the screen:\n{self.text}")

    async def until(self, is_so: Callable[[], bool], problem: Callable[[], str]) -> None:
        end = asyncio.get_running_loop().time() + SECONDS_MAX
        while not is_so():
            assert asyncio.get_running_loop().time() < end, problem()
            await self._pilot.pause(0.01)

    async def opened(self, kind: type[Screen[Any]]) -> None:
        """Wait until a screen of this kind is shown."""
        await self.until(lambda: isinstance(self.screen, kind), lambda: f"{self.screen} is shown")
        await self._pilot.pause()


def browse(
    store: Store,
    steps: Callable[[Driver], Awaitable[None]],
    *,
    session: Session | None = None,
    folder: str = "/nowhere",
    size: tuple[int, int] = (80, 24),
) -> Browser:
    """Run a browser on ``store`` with ``steps``, and return it after its end."""
    browser = Browser(store, lambda: first_screens(session), folder=folder, now_ms=lambda: NOW_MS)

    async def run() -> None:
        async with browser.run_test(size=size) as pilot:
            await pilot.pause()
            driver = Driver(browser, pilot)
            with suppress(asyncio.CancelledError):
                await steps(driver)

    asyncio.run(run())
    for thread in browser.writers:
        thread.join()
    assert browser.failure is None
    return browser


__all__ = ["BrowseScreen", "Driver", "browse"]
