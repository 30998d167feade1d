"""Export formats that do not belong to an agent: those of gitsession, and those of plugins.

Sessions can be exported in these formats, but not imported from them.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from gitsession import plugins
from gitsession.exporting import HTML, Exporter, json_lines, llm, markdown, otlp
from gitsession.formats import FORMATS
from gitsession.formats.base.outgoing import Outgoing, Writer
from gitsession.pattern import pattern

READABLE_FORMATS: dict[str, Writer] = {writer.AGENT: writer for writer in (json_lines, llm, markdown, otlp)}
"""gitsession's own formats by name. HTML is missing, because ``web`` is a higher layer."""

_SUFFIX = pattern(r"\.[A-Za-z0-9][A-Za-z0-9._-]{0,30}")


class ExportedText(NamedTuple):
    """The content of a file. ``notes``: descriptions of the items that it lacks, with counts."""

    data: bytes
    notes: Counter[str]


class PluginWriter:
    """The exporter of a plugin."""

    def __init__(self, plugin: plugins.Plugin) -> None:
        self.AGENT = plugin.name
        self._plugin = plugin
        self._exporter = plugin.require(plugin.load(), Exporter, "an Exporter")
        suffix = self._exporter.suffix
        if not isinstance(suffix, str) or not _SUFFIX.fullmatch(suffix):
            raise plugin.failure("the suffix must be a period and then letters, digits, '.', '_' and '-'")
        self.suffix = suffix

    def text(self, out: Outgoing) -> ExportedText:
        """Return the exported session. Raises ``PluginFailed``."""
        notes: Counter[str] = Counter()
        found = self._plugin.call(self._exporter.write, out, notes)
        try:
            data = found.encode("utf-8", "replace") if isinstance(found, str) else found
            kept = Counter({str(note): int(times) for note, times in notes.items() if times > 0})
        except (TypeError, ValueError) as error:
            raise self._plugin.failure(f"invalid notes: {plugins.described(error)}") from error
        return ExportedText(self._plugin.require(data, bytes, "text or bytes"), kept)


def find_writer(name: str) -> Writer | PluginWriter | None:
    """Return the export format ``name``; ``None`` if there is none, or if an agent has this name.

    Raises ``PluginFailed``.
    """
    if name in READABLE_FORMATS:
        return READABLE_FORMATS[name]
    if name in FORMATS:
        return None
    plugin = plugins.find("exporters", name)
    return None if plugin is None else PluginWriter(plugin)


def export_names() -> list[str]:
    """Return the names of all formats to which sessions can be exported."""
    return list(dict.fromkeys(plugins.names("exporters", [*FORMATS, *READABLE_FORMATS, HTML])))
