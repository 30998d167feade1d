"""Who summarises, by a word or as an object, and what the user's own git configuration says of it."""

from __future__ import annotations

import dataclasses
import os

from gitsession.compaction import summarizers
from gitsession.compaction.summarizers.options import Options, from_config
from gitsession.compaction.summary import Summarizer
from gitsession.git import process


def summarizer(wanted: str | Summarizer) -> Summarizer:
    """An object is the one that is meant; a name is looked up, and set up as ``users_options`` say.

    Raises ``NotFound`` for an unknown name, ``SummaryFailed`` where something of its settings is missing or wrong.
    """
    if not isinstance(wanted, str):
        return wanted
    return summarizers.make(dataclasses.replace(users_options(), name=wanted))


def users_options() -> Options:
    """What ``git config --global`` says (docs/compaction.md); a store's own configuration is not asked."""
    return from_config(process.user_settings("gitsession.summarizer"), os.environ)
