"""Parts of SVG images: texts, lines, and rectangles. The images have no scripts and no fonts of their own."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from gitsession.line_text import on_a_line


def text(x: float, y: float, words: str, kind: str = "", *, anchor: str = "start") -> str:
    kinds = f' class="{kind}"' if kind else ""
    anchors = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{kinds} x="{x:.1f}" y="{y:.1f}"{anchors}>{_escaped(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def titled(title: str, parts: Iterable[str]) -> str:
    """Return ``parts`` as a group. A browser shows the title when the pointer is on the group."""
    return f"<g><title>{_escaped(title)}</title>{''.join(parts)}</g>"


def image(title: str, width: float, height: float, style: str, parts: Iterable[str]) -> str:
    """Return an image. ``style``: CSS, which also sets the color of the background, the class ``ground``."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" role="img">\n'
        f"<title>{_escaped(title)}</title>\n<style>{style}</style>\n"
        f'<rect class="ground" width="{width}" height="{height:.0f}" rx="6"/>\n{body}\n</svg>\n'
    )


def _escaped(words: str) -> str:
    return escape(on_a_line(words).translate(_NOT_IN_XML))  # control characters are removed: XML does not allow them


_NOT_IN_XML = dict.fromkeys((0xFFFE, 0xFFFF))
