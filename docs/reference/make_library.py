"""Write library.md, the reference of the Python library, from docstrings: ``python docs/reference/make_library.py``."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import gitsession

HERE = Path(__file__).resolve().parent

HEAD = """# Library

Generated from docstrings by `docs/reference/make_library.py`; do not edit.

Import every name from `gitsession`. Other modules of the package may change with every release. Times are
Unix times in ms, ids of entries are git object ids in hex. For a first program, see
[Write an agent with the library](../how-to/write-an-agent.md).
"""

CHAPTERS = {
    "Stores and sessions": ["Store", "Session"],
    "Parts of a store": ["Remotes", "Trash", "ArchivedSessions", "Purges", "StoredSecrets", "AgentSessions"],
    "Parts of a session": ["SessionFiles", "SessionCompaction", "SessionState"],
    "Entries": [
        "Entry", "Message", "Compaction", "BranchSummary", "ContextEdit", "Custom", "CustomMessage", "Injection",
        "Instructions", "Label", "Title", "ModelChange", "ModeChange", "ThinkingChange", "ToolsChange", "Prune",
        "Reset", "Permission", "Todo", "TodoItem", "PlanChange", "Mark", "Seal", "UnknownEntry",
    ],
    "Blocks of a message": ["Text", "Thinking", "ToolCall", "Image", "File", "OtherBlock", "text"],
}  # fmt: skip
REST, ERRORS = "Other values", "Errors"

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^([*]*[\w., ]+): ")


def chapters() -> dict[str, list[str]]:
    """Return the public names of each chapter."""
    public = [name for name in gitsession.__all__ if name != "__version__"]
    placed = {name for names in CHAPTERS.values() for name in names}
    errors = [name for name in public if is_error(getattr(gitsession, name))]
    rest = [name for name in public if name not in placed and name not in errors]
    return {**CHAPTERS, REST: rest, ERRORS: errors}


def is_error(value: object) -> bool:
    return inspect.isclass(value) and issubclass(value, Exception)


def page() -> str:
    """Return the content of library.md."""
    parts = [HEAD]
    for chapter, names in chapters().items():
        parts.append(f"\n## {chapter}\n")
        for name in names:
            parts += described(name, getattr(gitsession, name))
    return "".join(parts)


def described(name: str, value: object) -> Iterator[str]:
    """Yield the section of a public name, and of its methods if it is a class."""
    yield f"\n### {name}\n\n"
    if inspect.isfunction(value):
        yield code(signature(name, value)) + formatted(inspect.getdoc(value) or "")
        return
    if not inspect.isclass(value):  # an alias of a type
        yield code(f"{name} = {plain(str(value))}")
        return
    if dataclasses.is_dataclass(value) or issubclass(value, tuple):
        yield code(signature(f"class {name}", value).removesuffix(" -> None"))
    yield formatted(inspect.cleandoc(value.__doc__ or ""))
    if is_error(value):
        return
    for attribute, member in vars(value).items():
        if attribute.startswith("_"):
            continue
        function = getattr(member, "__func__", member)
        if isinstance(member, property) or hasattr(member, "func"):
            getter = member.fget if isinstance(member, property) else member.func
            yield f"\n#### {name}.{attribute}\n\n" + formatted(inspect.getdoc(getter) or "")
        elif inspect.isfunction(inspect.unwrap(function)) and function.__doc__:
            yield f"\n#### {name}.{attribute}\n\n" + code(signature(f"{name}.{attribute}", function))
            yield formatted(inspect.getdoc(function) or "")


def signature(name: str, function: object) -> str:
    """Return a call of a function with its types and defaults, without ``self`` and ``cls``."""
    found = inspect.signature(function)  # type: ignore[arg-type]
    shown, star = [], False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown, star = [*shown, "*"], True
        kind = "" if parameter.annotation is parameter.empty else f": {plain(str(parameter.annotation))}"
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        star = star or prefix == "*"
        shown.append(f"{prefix}{parameter.name}{kind}{default(parameter)}")
    gives = found.return_annotation
    arrow = "" if gives is found.empty else f" -> {plain(str(gives))}"
    line = f"{name}({', '.join(shown)}){arrow}"
    return line if len(line) <= 100 else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){arrow}"


def default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    value = parameter.default
    if dataclasses.is_dataclass(value):
        return f" = {type(value).__name__}()"
    shown = getattr(value, "__name__", repr(value))
    return " = ..." if "<" in shown else f" = {shown}"  # a factory, or a function without a name


def plain(kind: str) -> str:
    """Return an annotation without quotation marks and module names."""
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", kind.replace("'", "").replace('"', "'"))


def code(text: str) -> str:
    return f"```python\n{text}\n```\n\n"


def formatted(doc: str) -> str:
    """Return a docstring as Markdown: its sections become lists."""
    parts: list[str] = []
    section, rows = "", list[str]()
    for line in [*doc.splitlines(), "Args:"]:  # the last line ends the last section
        heading = _SECTION.match(line)
        if not heading and (not section or not line or line.startswith(" ")):
            rows.append(line)
            continue
        parts.append(as_list(section, rows) if section else "\n".join(rows).strip())
        section, rows = (heading[1], []) if heading else ("", [line])
    return "\n\n".join(filter(None, parts)).replace("``", "`") + "\n"


def as_list(section: str, rows: list[str]) -> str:
    """Return a section of a docstring as a heading and a list of its items, or its text."""
    text = textwrap.dedent("\n".join(rows)).strip()
    if section in ("Returns", "Yields"):
        return f"**{section}**: " + " ".join(text.split())
    items = [" ".join(item.split()) for item in re.split(r"\n(?=\S)", text)]
    return f"**{section}**\n\n" + "\n".join("- " + _ITEM.sub(r"`\1`: ", item) for item in items)


if __name__ == "__main__":
    (HERE / "library.md").write_text(page(), encoding="utf-8")
