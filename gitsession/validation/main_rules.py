"""``main`` says that a repository is a store, and of which format: it is made once, and only goes forward."""

from __future__ import annotations

import json

from gitsession.errors import GitSessionError, Malformed
from gitsession.git.objects import parse_commit, parse_tree
from gitsession.git.types import Oid
from gitsession.store import create
from gitsession.validation.proposals import MEBIBYTE, Fault, Proposed
from gitsession.validation.reader import GitReader

_TREE_NAMES_MAX = 1000


def fault(read: GitReader, move: Proposed) -> Fault | None:
    """What is wrong with a new ``main``."""
    if move.new is None or move.new == create.first_commit()[0]:
        return None if move.old is None else Fault("rewind", "`main` only goes forward")
    if move.old is not None and not read.is_on_line(move.old, move.new):
        return Fault("rewind", "`main` only goes forward")
    try:
        value = _marker(read, move.new)
    except (GitSessionError, ValueError, RecursionError) as error:
        return Fault("main", f"{create.MARKER} cannot be read there: {error}")
    version = value.get("format") if isinstance(value, dict) else None
    if type(version) is not int:
        return Fault("main", f"no {create.MARKER} there that states a format: it would be a store no longer")
    if version > create.FORMAT:
        return Fault("main", f"a store of format {version}, and we know {create.FORMAT}: upgrade gitsession here first")
    return None


def _marker(read: GitReader, oid: Oid) -> object:
    tree = parse_commit(read.read(oid)[1]).tree
    head = read.head(tree)
    if head is None or head.size > MEBIBYTE:
        raise Malformed("its tree is gone, or too large")
    rows = parse_tree(read.read(tree)[1])
    if len(rows) > _TREE_NAMES_MAX:
        raise Malformed(f"its tree has {len(rows):,} names")
    for _, name, blob in rows:
        if name == create.MARKER:
            found = read.head(blob)
            if found is None or found.size > MEBIBYTE:
                raise Malformed("it is gone, or too large")
            return json.loads(read.read(blob)[1])
    return None
