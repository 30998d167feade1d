"""Write rpc.md, the methods of ``gitsession rpc``, from their table: ``python docs/reference/make_rpc.py``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gitsession
from gitsession.cli.rpc import methods, openrpc
from gitsession.cli.rpc.results import EventParameters
from gitsession.jsonrpc import schema
from gitsession.jsonrpc.server import CANCELLED, CODES, INTERNAL, METHOD, PARAMS, PARSE, REQUEST

HERE = Path(__file__).resolve().parent

HEAD = """# JSON-RPC

<!-- Written by docs/reference/make_rpc.py. -->

[`gitsession rpc`](commands.md#gitsession-rpc) serves a store to one client by
[JSON-RPC 2.0](https://www.jsonrpc.org/specification). [Use from another
language](../how-to/use-from-another-language.md) has complete clients.

- The client writes requests to standard input, and reads answers and events from standard output. Each message
  is one line of JSON in UTF-8. A line of a request has at most 64 MiB, and a batch at most 1,000 requests.
- A client that does not read its answers and events delays only itself. No event is lost: the server looks for
  further changes after the client has read the earlier events. A server has at most 100 subscriptions.
- Parameters are passed by name, or by position in the order of the tables.
- Requests are answered in their order, except for methods marked *concurrent*, which can take longer. Before such a
  request, wait for the answers to the requests on which it depends.
- When standard input ends, the server answers the requests that it has read, and exits. An entry is durable when its
  answer is sent, so a client or a server that is killed loses no entry that was answered.
- The notification `cancel` with the parameter `id` cancels a request that has not begun.
- Objects of the type *document* have the fields that [json.md](json.md) lists under their name. The field `entry` of
  `append` is described under [Entries as JSON](json.md#entries-as-json). Ignore unknown fields.
- `gitsession rpc --schema` prints an OpenRPC document of these methods, with a JSON Schema of each parameter and
  result.
"""

EVENTS = """
## Events

After `subscribe`, the server sends a notification with the method `event` for each change that any process makes. If a
look for changes fails, it sends a notification with the method `error` and the field `message`, and tries again.

| Kind | Meaning |
|---|---|
| `entry` | An entry was appended to a branch. |
| `label` | A label was set or removed. |
| `title` | The title of a session was set or removed. |
| `checkpoint` | A checkpoint was recorded. |
| `branch-created` | A branch was created. |
| `branch-moved` | A branch moved to another entry than the next one, for example by an undo. |
| `branch-removed` | A branch was removed. |
| `branch-switched` | Another branch was selected with `switch` or by a rewind. |
| `session-created` | A session was created, forked, imported, pulled, or restored. Entries before a fork are not new. |
| `session-removed` | A session was moved to the trash or to the archive, or was purged. |

"""

ERRORS = """
## Errors

The field `data` of an error has the `type`, which is the name of the class in [errors.md](errors.md), the `hint` if
there is one, and for `Ambiguous` the `candidates`.

| Code | Type |
|---|---|
"""

STANDARD = {
    PARSE: "the line is not JSON, or is too long",
    REQUEST: "the message is not a request",
    METHOD: "the method is unknown",
    PARAMS: "the parameters are invalid",
    INTERNAL: "an unexpected error",
    CANCELLED: "the request was cancelled",
}


def page() -> str:
    document = openrpc.openrpc(methods.METHODS, gitsession.__version__, [])
    parts = [HEAD, *("".join(section(method)) for method in document["methods"])]
    event = schema.schema_of(EventParameters)
    codes = [f"| {code} | `{kind.__name__}` |\n" for kind, code in CODES.items()]
    codes += [f"| {code} | {meaning} |\n" for code, meaning in STANDARD.items()]
    return "".join([*parts, EVENTS, *fields(event), ERRORS, *codes])


def section(method: Mapping[str, Any]) -> Iterator[str]:
    name = method["name"]
    yield f"\n## {name}\n\n{method['summary']}{' *Concurrent.*' if name in methods.CONCURRENT else ''}\n"
    if method["params"]:
        yield "\n| Parameter | Type | Meaning |\n|---|---|---|\n"
        for each in method["params"]:
            kind = type_of(each["schema"]) + ("" if each["required"] else ", optional")
            yield f"| `{each['name']}` | {kind} | {each['description']} |\n"
    result = method["result"]["schema"]
    if "properties" not in result:
        yield f"\nThe result is a {type_of(result)}.\n"
        return
    yield "\n"
    yield from fields(result)


def fields(found: Mapping[str, Any]) -> Iterator[str]:
    yield "| Field | Type | Meaning |\n|---|---|---|\n"
    for name, each in found["properties"].items():
        optional = "" if name in found["required"] else ", optional"
        yield f"| `{name}` | {type_of(each)}{optional} | {each.get('description', '')} |\n"


def type_of(found: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$comment" in found:
        name = found["$comment"].split("/")[1]
        return f"document [`{name}`](json.md#{ {'log': 'log-and-tree', 'tree': 'log-and-tree'}.get(name, name) })"
    if "anyOf" in found:
        return " or ".join(type_of(each) for each in found["anyOf"])
    if "enum" in found:
        return "one of " + ", ".join(f"`{each}`" for each in found["enum"])
    if found.get("type") == "array":
        return f"array of {type_of(found['items'])}"
    return str(found.get("type", "any"))


if __name__ == "__main__":
    (HERE / "rpc.md").write_text(page(), encoding="utf-8")
