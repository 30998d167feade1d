"""Export of sessions as files for an agent, for people, or for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from gitsession.dataclass import dataclass

if TYPE_CHECKING:
    from gitsession.formats import Outgoing

HTML = "html"
"""The format of web pages, which ``web.export`` writes. They are for people, and cannot be imported."""


@dataclass(frozen=True, slots=True)
class Exporter:
    """An export format of a plugin (docs/reference/plugins.md).

    Attributes:
        suffix: Suffix of file names, such as ``.csv``.
        write: Function that receives the session and a counter, and returns the content of the file. It adds to the
            counter the descriptions of the items that the file lacks.
    """

    suffix: str
    write: Callable[[Outgoing, Counter[str]], str | bytes]
