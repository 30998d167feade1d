"""Write the pictures of the web pages: ``python docs/images/make_web.py``.

Each picture is a screenshot of a page of ``gitsession serve`` in an SVG, because SVG is the only form of pictures in
the docs. The script requires Chromium, its driver, and Selenium. ``make_terminal.py`` describes the store.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from make_terminal import HERE, SHOP, sample_store

from gitsession import Store
from gitsession.web.server import WebServer
from gitsession.web.site import Site

WIDTH, SCALE, QUALITY = 1100, 1.5, 70
PICTURES = {
    "web-session": ("The page of a session, with the branch tree at the side", 900, "/session/{sid}"),
    "web-file": ("The lines of a file, with the prompt that led to them", 560, "/files/lines?path={folder}/auth.py"),
    "web-statistics": ("The page of statistics, with a bar for each tool", 470, "/stats?by=tool"),
}
"""The pictures: the description, the height, and the address of the page."""


def main() -> None:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for option in ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(option)
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or ""))
    SHOP.mkdir()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, picture in pictures(driver, Path(folder)):
                (HERE / f"{name}.svg").write_text(picture, encoding="utf-8")
    finally:
        driver.quit()
        shutil.rmtree(SHOP)


def pictures(driver: Any, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the names and the SVGs of ``PICTURES``, from a sample store in ``folder``."""
    sample_store(folder)
    with Store.open(folder / "store.git") as store, WebServer(Site(store, store.secrets.guard())) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            driver.get(server.address)
            [row] = store.sessions()
            for name, (title, height, address) in PICTURES.items():
                size = {"width": WIDTH, "height": height, "deviceScaleFactor": SCALE, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                driver.get(server.origin + address.format(sid=row.sid, folder=SHOP))
                shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
                yield name, svg(shot["data"], title, height)
        finally:
            server.shutdown()
            thread.join()


def svg(data: str, title: str, height: int) -> str:
    """Return a picture with a WebP image in base64, in a frame."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">\n'
        f"<title>{title}</title>\n"
        f'<image width="{WIDTH}" height="{height}" href="data:image/webp;base64,{data}"/>\n'
        f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="6" fill="none" stroke="#d8dee4"/>\n'
        "</svg>\n"
    )


if __name__ == "__main__":
    main()
