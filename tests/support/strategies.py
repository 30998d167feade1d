"""Hypothesis strategies: any plain value, any block, any entry of any kind."""

import dataclasses

from hypothesis import strategies as st

from gitsession.model.blocks import File, Image, OtherBlock, Text, Thinking, ToolCall
from gitsession.model.entries import KINDS, ROLES, TODO_STATUSES, Entry, TodoItem

BLOCK_TYPES = [block.type for block in (Text, Thinking, ToolCall, Image, File)]
"""Types of the known blocks; not a set, since the type of an unknown block may be a list."""

INTEGERS = st.integers(-(2**63), 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WILD_TEXT = st.text(st.characters(), max_size=200)
"""Text with lone surrogates, which JSON files can contain and CBOR cannot."""

SCALARS = st.one_of(
    st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False, allow_infinity=False), TEXT, st.binary(max_size=20)
)


def maps_of(values):
    return st.dictionaries(TEXT, values, max_size=4)


PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | maps_of(inner), max_leaves=8)
MAPS = maps_of(PLAIN)

OTHER_BLOCKS = st.builds(OtherBlock, SCALARS | MAPS.filter(lambda value: value.get("type") not in BLOCK_TYPES))
BLOCKS = st.one_of(
    st.builds(Text, TEXT, st.none() | TEXT),
    st.builds(Thinking, TEXT, st.none() | TEXT, st.booleans()),
    st.builds(ToolCall, TEXT, TEXT, MAPS, st.none() | TEXT),
    st.builds(Image, st.binary(max_size=30), TEXT),
    st.builds(File, TEXT, st.none() | TEXT, st.none() | st.binary(max_size=30), st.none() | TEXT),
    OTHER_BLOCKS,
)

_LATER = MAPS.map(lambda extra: {name: item for name, item in extra.items() if name not in TodoItem.__match_args__})
TODO_ITEMS = st.builds(TodoItem, TEXT, st.sampled_from(TODO_STATUSES), st.none() | TEXT, st.none() | TEXT, extra=_LATER)

BY_ANNOTATION = {
    "str": TEXT,
    "str | None": st.none() | TEXT,
    "int": INTEGERS,
    "int | None": st.none() | INTEGERS,
    "bool": st.booleans(),
    "bytes": st.binary(max_size=30),
    "tuple[str, ...]": st.lists(TEXT, max_size=3).map(tuple),
    "tuple[tuple[str, str], ...]": st.lists(st.tuples(TEXT, TEXT), max_size=3).map(tuple),
    "tuple[Block, ...]": st.lists(BLOCKS, max_size=3).map(tuple),
    "tuple[TodoItem, ...]": st.lists(TODO_ITEMS, max_size=3).map(tuple),
    "Mapping[str, str]": maps_of(TEXT),
    "Mapping[str, Any]": MAPS,
    "Mapping[str, Any] | None": st.none() | MAPS,
    "Any": PLAIN,
}


def fields_of(kind: type[Entry]) -> list[str]:
    """Return the fields in the body of an entry of ``kind``, in order."""
    return [field.name for field in dataclasses.fields(kind) if field.name not in ("at_ms", "extra")]


def entries_of(kind: type[Entry]):
    drawn = {
        field.name: BY_ANNOTATION[str(field.type)]
        for field in dataclasses.fields(kind)
        if field.name not in ("at_ms", "extra")
    }
    if kind.kind == "message":
        drawn["role"] = st.sampled_from(ROLES)
    later = MAPS.map(lambda extra: {name: item for name, item in extra.items() if name not in drawn})
    return st.builds(kind, at_ms=INTEGERS, extra=later, **drawn)


ENTRIES = st.sampled_from(list(KINDS.values())).flatmap(entries_of)
NONCES = st.binary(min_size=16, max_size=16)
