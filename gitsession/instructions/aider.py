"""Load the conventions of Aider: the files that ``read:`` of ``.aider.conf.yml`` names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gitsession.instructions.loader import Loader, to_instructions
from gitsession.instructions.place import real
from gitsession.instructions.reading import as_yaml, strings
from gitsession.model.instructions import InstructionFile

CONFIG = ".aider.conf.yml"


class AiderLoader(Loader):
    """A loader of the read-only files of Aider, which has no skills."""

    AGENT = "aider"

    def files(self) -> Iterator[InstructionFile]:
        """Yield the files that the configuration names, each once."""
        seen: set[Path] = set()
        for name, origin in self._named():
            path = self.place.expand(name, self.place.cwd)
            expanded = sorted(self.reader.walk(path)) if path.is_dir() else [path]
            for each in expanded:
                if real(each) in seen:
                    continue
                seen.add(real(each))
                if not each.exists():
                    self.reader.refuse(each, "absent")
                elif file := self.reader.read(each):
                    yield to_instructions(file, "convention", f"read: of {origin}")

    def _named(self) -> Iterator[tuple[str, str]]:
        """Yield the paths of ``AIDER_READ`` or of the last configuration file with ``read``, and their origin."""
        place = self.place
        if chosen := place.environment.get("AIDER_READ"):
            yield chosen, "$AIDER_READ"
            return
        folders = [place.home, *([place.git_root] if place.git_root else []), place.cwd]
        for folder in reversed(list(dict.fromkeys(folders))):
            file = self.reader.read(folder / CONFIG)
            if file is None:
                continue
            try:
                settings = as_yaml(file.text)
            except ValueError:
                self.reader.refuse(file.path, "not a YAML file")
                continue
            if isinstance(settings, dict) and "read" in settings:
                yield from ((name, file.path.as_posix()) for name in strings(settings["read"]))
                return
