"""Messages of frameworks as entries, and the parts of a message that its entry does not determine.

A framework's message, as JSON, is an *item*. An adapter has two functions: one converts an item to a ``Message``, the
other one *derives* an item from a ``Message``. The difference between the item and the derived one is stored as JSON
text in ``Message.extra``, so that a framework gets back exactly what it stored. JSON text can represent all that JSON
can, unlike the format of entries. FROZEN: an item that is stored depends on the function that derives it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from gitsession.codec.cbor import to_profile
from gitsession.errors import Malformed
from gitsession.model.entries import CustomMessage, Message

Content = TypeVar("Content", Message, CustomMessage)


_DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that stored data causes if it is not what an adapter has written."""


@contextlib.contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise ``Malformed`` if the body fails because stored data is not what an adapter has written.

    ``what``: what is read, for the error.
    """
    try:
        yield
    except _DAMAGE as error:
        hint = "continue after an earlier entry, with gitsession rewind"
        raise Malformed(f"cannot read {what}: {error}", hint=hint) from error


def to_json(value: Any) -> Any:
    """Return ``value`` as it is after it was stored as JSON. Raises ``Malformed`` if JSON cannot represent it."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError, RecursionError) as error:
        raise Malformed(f"cannot store the message: {error}", hint="use only values that JSON can represent") from error


def copied(value: Any) -> Any:
    """Return a copy of a JSON value. Entries are cached, so a program that changes an item must have its own copy."""
    if isinstance(value, dict):
        return {name: copied(item) for name, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, list) else value


def with_item(message: Message, item: Any, derive: Callable[[Message], Any], key: str) -> Message:
    """Return a storable message, with the parts of ``item`` that it does not determine in ``extra[key]``."""
    message = storable(message)
    change = difference(derive(message), item)
    return message if change is None else dataclasses.replace(message, extra={**message.extra, key: json.dumps(change)})


def item_of(message: Message, derive: Callable[[Message], Any], key: str) -> Any:
    """Return the item from which ``with_item`` made ``message``; for another message, the derived item."""
    kept, derived = message.extra.get(key), copied(derive(message))
    return patched(derived, json.loads(kept)) if isinstance(kept, str) else derived


def difference(old: Any, new: Any) -> Any:
    """Return the change from one JSON value to another one; ``None`` if they are equal.

    A change is ``[value]``, which replaces the value; ``[]``, which removes the field; or an object with the changes of
    the fields of an object or of the items of a list.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        changes: dict[str, Any] = {name: [] for name in old if name not in new}
        pairs = ((name, difference(old[name], item) if name in old else [item]) for name, item in new.items())
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        changes = {}
        pairs = ((str(at), difference(*both)) for at, both in enumerate(zip(old, new, strict=True)))
    else:
        return None if type(old) is type(new) and old == new else [new]
    return {**changes, **{name: change for name, change in pairs if change is not None}} or None


def patched(old: Any, change: Any) -> Any:
    """Return the value to which ``change``, which ``difference`` returned, changes ``old``."""
    if isinstance(change, list):
        return change[0]
    if isinstance(old, list):
        return [patched(item, change[str(at)]) if str(at) in change else item for at, item in enumerate(old)]
    changed = {name: patched(old.get(name), inner) for name, inner in change.items() if inner != []}
    return {name: item for name, item in old.items() if change.get(name) != []} | changed


def storable(message: Content) -> Content:
    """Return a message that the format of entries can represent."""
    return dataclasses.replace(_to_profile(message), content=tuple(map(_to_profile, message.content)))


def _to_profile(value: Any) -> Any:
    """Convert the fields of a message or a block to the profile of the format."""
    fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.name != "content"}
    return dataclasses.replace(value, **{name: to_profile(item) for name, item in fields.items()})
