"""Write the pictures of the docs from real output: ``python docs/images/make_terminal.py``.

``terminal.svg`` shows commands, and ``browse.svg`` the terminal browser.

The commands run in a new store with the sample session of docs/examples. Ids of entries follow from the path of the
project, so the project is always at ``/tmp/shop``, which must not exist.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from html import escape
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
SHOP = Path("/tmp/shop")
SHOWN = (("ls",), ("tree", "@"), ("rewind", "leaf~9", "--dry-run"))

COLUMNS = 80
CHAR_WIDTH, LINE_HEIGHT, MARGIN, BAR_HEIGHT = 8.4, 19, 16, 32
STYLE = """
  text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9 }
  .prompt { fill: #a3be8c }
  .command { fill: #eceff4; font-weight: bold }
"""


def main() -> None:
    SHOP.mkdir()
    try:
        with tempfile.TemporaryDirectory() as folder:
            lines = transcript(sample_store(Path(folder)))
            asyncio.run(picture_browser(Path(folder) / "store.git"))
    finally:
        shutil.rmtree(SHOP)
    (HERE / "terminal.svg").write_text(svg(lines), encoding="utf-8")


async def picture_browser(store: Path) -> None:
    """Write a picture of the terminal browser with the tree of the newest session."""
    from gitsession import Store
    from gitsession.browse.app import first_screens
    from gitsession.browse.browser import Browser

    with Store.open(store) as opened:
        session = opened.session(opened.sessions()[0].sid)
        browser = Browser(opened, lambda: first_screens(session), folder=str(SHOP))
        async with browser.run_test(size=(100, 21)) as pilot:
            await pilot.pause(1)
            picture = browser.export_screenshot(title="gitsession browse")
    fonts = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)  # a viewer has its own fixed-width font
    (HERE / "browse.svg").write_text(fonts.sub("", picture), encoding="utf-8")


def sample_store(folder: Path) -> Callable[..., str]:
    """Import the sample session into ``folder / "store.git"``. Return a function that runs a command of gitsession."""
    shutil.copytree(EXAMPLES / "shop", SHOP, dirs_exist_ok=True)
    shutil.copytree(EXAMPLES / "claude", folder / "claude")
    for file in folder.glob("claude/projects/*/*.jsonl"):
        file.write_text(file.read_text().replace("/home/ada/shop", str(SHOP)))
    settings = {"HOME": str(folder), "GITSESSION_DIR": str(folder / "store.git"), "TZ": "UTC", "COLUMNS": str(COLUMNS)}
    environment = {**os.environ, **settings}

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "gitsession", *words]
        return subprocess.run(command, cwd=SHOP, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout

    run("import", str(folder / "claude"))
    run("name", "@", "Fix the login redirect")
    return run


def transcript(run: Callable[..., str]) -> list[str]:
    """Return the lines of a terminal after the commands of ``SHOWN``."""
    lines: list[str] = []
    for words in SHOWN:
        lines += [f"$ gitsession {' '.join(words)}", *run(*words).splitlines(), ""]
    return [part for line in lines[:-1] for part in wrapped(line)]


def wrapped(line: str) -> list[str]:
    """Return ``line`` as a terminal breaks it."""
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)] or [""]


def svg(lines: list[str]) -> str:
    """Return the picture of a terminal that shows ``lines``."""
    width = round(COLUMNS * CHAR_WIDTH + 2 * MARGIN)
    height = BAR_HEIGHT + len(lines) * LINE_HEIGHT + MARGIN
    rows = [row(line, BAR_HEIGHT + (number + 1) * LINE_HEIGHT - 5) for number, line in enumerate(lines) if line]
    dots = [
        f'<circle cx="{MARGIN + 5 + 20 * number}" cy="16" r="6" fill="{colour}"/>'
        for number, colour in enumerate(("#bf616a", "#ebcb8b", "#a3be8c"))
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">',
            "<title>gitsession lists a session, shows its branches, and plans a rewind</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#2e3440"/>',
            *dots,
            *rows,
            "</svg>\n",
        ]
    )


def row(line: str, y: int) -> str:
    """Return a line of the terminal; ``textLength`` puts each character into its column in any font."""
    text = escape(line, quote=False)
    if line.startswith("$ "):
        text = f'<tspan class="prompt">$</tspan><tspan class="command">{text[1:]}</tspan>'
    length = f'textLength="{len(line) * CHAR_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{MARGIN}" y="{y}" xml:space="preserve" {length}>{text}</text>'


if __name__ == "__main__":
    main()
