"""The pages, which are templates with the style sheet and the script in them.

A page loads nothing: its Content-Security-Policy allows the style sheet and the script by their digests, images in
``data:`` URLs, and in pages of the server requests to the server.
"""

from __future__ import annotations

import base64
import functools
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from gitsession.formats.base.fields import to_iso
from gitsession.web.text import on_one_line

_FOLDER = Path(__file__).parent


def render(name: str, **values: Any) -> str:
    """Return the page of the template ``name``, with the style sheet and the script."""
    style, script = static("style.css"), static("page.js")
    return template(name).render(style=Markup(style), script=Markup(script), csp=policy(**values), **values)


def policy(*, is_served: bool = False, **_values: Any) -> str:
    """Return the Content-Security-Policy of a page."""
    rules = {
        "default-src": "'none'",
        "style-src": _hash_source("style.css"),
        "script-src": _hash_source("page.js"),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'self'" if is_served else "'none'",
        **({"connect-src": "'self'"} if is_served else {}),
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


@functools.cache
def _hash_source(name: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(static(name).encode()).digest()).decode()}'"


@functools.cache
def static(name: str) -> str:
    """Return the style sheet or the script."""
    return (_FOLDER / "static" / name).read_text(encoding="utf-8")


def clock(at_ms: int) -> str:
    """Return a time in UTC as text, such as ``2026-03-02 09:01``; "" if it is unknown."""
    return to_iso(at_ms)[:16].replace("T", " ") if at_ms > 0 else ""


def template(name: str) -> Template:
    """Return a template, which escapes all values that are not ``Markup``."""
    return _environment().get_template(name)


@functools.cache
def _environment() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=StrictUndefined, auto_reload=False,
    )  # fmt: skip
    found.filters |= {"line": on_one_line, "clock": clock}
    return found
