"""Chromium for tests of pages. The tests are skipped if Chromium, its driver or Selenium is not installed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


class Browser:
    """A Chromium. The attributes of Selenium's driver are available too."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self.driver, name)

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def color_scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def scripts(self, are_enabled: bool) -> None:
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not are_enabled})

    def run(self, script: str, *values: Any) -> Any:
        """Return the value of a JavaScript expression."""
        return self.driver.execute_script(f"return {script}", *values)

    def press(self, keys: str) -> None:
        """Press keys, one after the other, in the page as a whole."""
        from selenium.webdriver.common.action_chains import ActionChains

        for key in keys:
            ActionChains(self.driver).send_keys(key).perform()

    def wait(self, condition: Callable[[], Any], seconds: float = 20) -> Any:
        """Return the value of ``condition`` when it is true. Fail after ``seconds``."""
        from selenium.webdriver.support.wait import WebDriverWait

        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def visible(self) -> list[str]:
        """Return the ids of the entries that are displayed."""
        found: list[str] = self.run(
            "[...document.querySelectorAll('.entry')].filter(one => getComputedStyle(one).display !== 'none')"
            ".map(one => one.id)"
        )
        return found

    def requests(self) -> list[str]:
        """Return the addresses that the browser requested since the last call, except files and ``data:`` URLs."""
        messages = [json.loads(row["message"])["message"] for row in self.driver.get_log("performance")]
        sent = [each["params"] for each in messages if each["method"] == "Network.requestWillBeSent"]
        urls = [each["request"]["url"] for each in sent]
        return [url for url in urls if urlsplit(url).scheme not in ("file", "data", "chrome", "about")]

    def problems(self) -> list[str]:
        """Return the messages in the console since the last call."""
        return [row["message"] for row in self.driver.get_log("browser")]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Start Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver_program = shutil.which("chromedriver")
    if program is None or driver_program is None:
        pytest.skip("Chromium and its driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = program
    folder = tmp_path_factory.mktemp("browser")
    for option in (*_OPTIONS, f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver_program, env={**os.environ, "HOME": str(folder)})
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


def axe() -> str:
    """Return the source of axe-core. Skip the test if it is not installed."""
    found = os.environ.get("AXE", "")
    if not found or not Path(found).is_file():
        pytest.skip("$AXE is not the path of axe.min.js")
    return Path(found).read_text(encoding="utf-8")
