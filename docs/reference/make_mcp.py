"""Write mcp.md, the tools of ``gitsession mcp``, from their table: ``python docs/reference/make_mcp.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitsession.mcp import protocol, resources, tools
from gitsession.mcp.descriptions import DATA, described

HERE = Path(__file__).resolve().parent

HEAD = f"""# Tools for agents

<!-- Written by docs/reference/make_mcp.py. -->

[`gitsession mcp`](commands.md#gitsession-mcp) serves recorded sessions to an agent by the [Model Context
Protocol](https://modelcontextprotocol.io) over standard input and output. [Let an agent search past
sessions](../how-to/let-an-agent-search-past-sessions.md) describes the set-up.

- The versions {", ".join(protocol.STATELESS)} (without a handshake) and {" and ".join(protocol.HANDSHAKE)} (with
  `initialize`) are supported. If a client asks for another version, the server offers {protocol.HANDSHAKE[0]}.
- The server only reads. With `--allow-write`, it also offers the tools that are marked *writes*. It performs no rewind:
  `plan_rewind` returns the command that you can run.
- Each line of recorded text in a result begins with `> `, and each result states that quoted text is data. A session
  can contain text that is written to mislead a model, also in a title or in the name of a file. Control characters and
  invisible characters are removed. The text and the structured content of a result have the same quotations, because
  agents such as Claude Code and codex pass only the structured content to the model.
- Secrets are withheld, also those that the store has not redacted. Archived sessions are not read.
- A page has at most {tools.LIMIT_MAX} items, and a text at most {tools.TOKENS_MAX:,} tokens, by an estimate of four
  characters for each. A result that is cut states how to continue.
- If a tool fails, the result has `isError`, and its text states what is wrong and what to do next. If there is no
  store, the server starts, and each result states how to create one.
- The server answers `initialize` before it opens the store
  ([decision 0089](../decisions/0089-serve-mcp-with-our-own-json-rpc.md) has the measured time).
- When standard input ends, the server answers the requests that it has read, and exits. Batches are refused. A request
  that the client cancels is not answered.
"""


def page() -> str:
    parts = [HEAD, *("".join(section(name, row)) for name, row in tools.TOOLS.items())]
    parts += ["\n## Resources\n\n| Address | Content |\n|---|---|\n"]
    parts += [f"| `{each['uriTemplate']}` | {each['description']} |\n" for each in resources.TEMPLATES]
    parts += [
        f"\n`resources/list` lists the sessions, the newest first, {resources.PAGE_SIZE} on a page. A transcript has\n"
        f"about {resources.TRANSCRIPT_CHARS:,} characters: the newest entries that fit, and the address of the\n"
        "entries before them.\n"
    ]
    return "".join(parts)


def section(name: str, row: tools.ToolRow) -> Iterator[str]:
    found = described(name, row)
    about = found["description"].removesuffix(f" {DATA}")
    yield f"\n## {name}\n\n{about}{' *Writes.*' if row.writes else ''}\n"
    yield "\n| Parameter | Type | Meaning |\n|---|---|---|\n"
    for parameter, each in found["inputSchema"]["properties"].items():
        optional = "" if parameter in found["inputSchema"]["required"] else ", optional"
        yield f"| `{parameter}` | {type_of(each)}{optional} | {each['description']} |\n"
    yield "\n| Field | Type | Meaning |\n|---|---|---|\n"
    yield from fields(found["outputSchema"])


def fields(found: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, each in found["properties"].items():
        optional = "" if name in found["required"] else ", optional"
        yield f"| `{path}{name}` | {type_of(each)}{optional} | {each['description']} |\n"
        if "properties" in each.get("items", {}):
            yield from fields(each["items"], f"{path}{name}[].")


def type_of(found: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "enum" in found:
        return "one of " + ", ".join(f"`{each}`" for each in found["enum"])
    if found.get("type") == "array":
        return f"array of {type_of(found['items'])}s"
    return str(found["type"])


if __name__ == "__main__":
    (HERE / "mcp.md").write_text(page(), encoding="utf-8")
