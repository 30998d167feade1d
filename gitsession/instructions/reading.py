"""Read files of instructions, which may be hostile: in a cloned project, they come from anybody."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitsession.codec.digest import hash_of
from gitsession.dataclass import dataclass
from gitsession.instructions.place import real

FILE_BYTES_MAX = 4 * 1024 * 1024
"""Largest size of a file. Claude Code has the same limit."""

FILES_MAX = 2_000
"""Largest number of files that one load reads."""

TOTAL_BYTES_MAX = 8 * 1024 * 1024
"""Largest size of all files that one load reads."""

PROBLEMS_MAX = 500
"""Largest number of problems that are listed."""

FOLDER_ENTRIES_MAX = 20_000
"""Largest number of entries of folders that one load lists, and of imports that it looks for."""

FRONT_MATTER_CHARS_MAX = 64 * 1024

UNSEARCHED = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Folders below the working directory in which no file of instructions is searched."""

_ABSENT = {errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL}
_FRONT_MATTER = re.compile(r"---[^\S\n]*\n(.*?)^---[^\S\n]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_UNQUOTED = re.compile(r"""([A-Za-z_-]+):[ \t]+([^\s"'](?=.*(?:[][{}*&#!|>%@`]|:[ ])|(?<=[][{}*&#!|>%@`])).*)""")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadFile:
    """A file that was read: its absolute path, its text without a byte order mark, and the digest of its bytes."""

    path: Path
    text: str
    digest: str


class InstructionReader:
    """A reader that refuses what no agent should follow, and records each refusal."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, str], None] = {}
        self._unlisted = 0
        self._left_out: dict[tuple[Path, str], set[Path]] = {}
        self._files = 0
        self._bytes = 0
        self._entries = 0

    def refuse(self, path: Path | str, reason: str) -> None:
        """Record that ``path`` was refused, once for each reason."""
        problem = (path if isinstance(path, str) else path.as_posix(), reason)
        if problem not in self._refused and len(self._refused) >= PROBLEMS_MAX:
            self._unlisted += 1
        else:
            self._refused[problem] = None

    def leave_out(self, path: Path, limit: str) -> None:
        """Record that a file exceeded a limit of the load. Such files are counted by folder."""
        self._left_out.setdefault((path.parent, limit), set()).add(path)

    def problems(self, folder: Path) -> list[tuple[str, str]]:
        """Return the refused paths, each with the reason. Problems that are not listed count as those of ``folder``."""
        left_out = [
            (place.as_posix(), f"{limit}: {len(paths):,} {'file' if len(paths) == 1 else 'files'} left out")
            for (place, limit), paths in self._left_out.items()
        ]
        unlisted = self._unlisted + max(len(left_out) - PROBLEMS_MAX, 0)
        rest = [(folder.as_posix(), f"{unlisted:,} more problems are not listed")] if unlisted else []
        return [*self._refused, *left_out[:PROBLEMS_MAX], *rest]

    def read(self, path: Path, *, within: Path | None = None, uncounted_max: int = 0) -> ReadFile | None:
        """Return the file at ``path``, or ``None`` if there is none or it is refused.

        Args:
            within: A folder that the file, after resolving symbolic links, must be in.
            uncounted_max: Largest size of a file that does not count towards the limits of the load, in bytes.
        """
        try:
            if within is not None and not real(path).is_relative_to(real(within)):
                if path.exists():
                    self.refuse(path, f"a symbolic link leads out of {within.as_posix()}")
                return None
            data = self._read(path, uncounted_max)
        except ValueError:  # a null character or a surrogate
            return None
        except OSError as error:
            if error.errno not in _ABSENT:
                self.refuse(path, (error.strerror or str(error)).lower())
            return None
        if data is None:
            return None
        if b"\0" in data:
            self.refuse(path, "a binary file")
            return None
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        return ReadFile(path=path, text=text, digest=hash_of(data).hex())

    def _read(self, path: Path, uncounted_max: int) -> bytes | None:
        bytes_max = uncounted_max or FILE_BYTES_MAX
        # O_NONBLOCK: opening a named pipe would wait for a writer
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(handle)
            if stat.S_ISDIR(status.st_mode):
                return None
            if not stat.S_ISREG(status.st_mode):
                self.refuse(path, "not a regular file")
                return None
            if status.st_size > bytes_max:
                self.refuse(path, f"larger than {bytes_max:,} bytes")
                return None
            if not uncounted_max and not self._fits(path, status.st_size):
                return None
            with os.fdopen(os.dup(handle), "rb") as file:
                data = file.read(bytes_max)
            self._bytes += 0 if uncounted_max else len(data)
            return data
        finally:
            os.close(handle)

    def _fits(self, path: Path, size: int) -> bool:
        """Count a file of this size, unless the load has read too many files or bytes."""
        if self._files >= FILES_MAX:
            self.leave_out(path, f"more than {FILES_MAX:,} files of instructions")
        elif self._bytes + size > TOTAL_BYTES_MAX:
            self.leave_out(path, f"more than {TOTAL_BYTES_MAX:,} bytes of instructions")
        else:
            self._files += 1
            return True
        return False

    def has_file(self, path: Path) -> bool | None:
        """Return whether there is a file at ``path``, which need not be a valid path.

        Return ``None`` if the load has searched too many files.
        """
        if self._entries >= FOLDER_ENTRIES_MAX:
            self.leave_out(path, f"more than {FOLDER_ENTRIES_MAX:,} files were searched")
            return None
        self._entries += 1
        return os.path.exists(path) and not os.path.isdir(path)  # these accept a name that is too long

    def names(self, folder: Path, *, is_sorted: bool = True) -> list[str]:
        """Return the names in ``folder``; none if the folder is absent or refused.

        Args:
            is_sorted: Whether the names are sorted. If not, they have the order of the file system.
        """
        found: list[str] = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if self._entries >= FOLDER_ENTRIES_MAX:
                        self.refuse(folder, f"more than {FOLDER_ENTRIES_MAX:,} files were searched")
                        break
                    self._entries += 1
                    found.append(entry.name)
        except ValueError:
            return []
        except OSError as error:
            if error.errno not in _ABSENT:
                self.refuse(folder, (error.strerror or str(error)).lower())
        return sorted(found) if is_sorted else found

    def walk(self, folder: Path, *, within: Path | None = None, is_sorted: bool = True) -> Iterator[Path]:
        """Yield the paths of the files in ``folder`` and its folders. Links to folders are followed once."""
        visited: set[Path] = set()
        waiting = [self._paths_in(folder, within, visited, is_sorted)]
        while waiting:  # no recursion: folders can be nested more deeply than calls
            path = next(waiting[-1], None)
            if path is None:
                waiting.pop()
            elif path.is_dir():
                waiting.append(self._paths_in(path, within, visited, is_sorted))
            else:
                yield path

    def _paths_in(self, folder: Path, within: Path | None, visited: set[Path], is_sorted: bool) -> Iterator[Path]:
        resolved = real(folder)
        if within is not None and not resolved.is_relative_to(real(within)):
            self.refuse(folder, f"a symbolic link leads out of {within.as_posix()}")
        elif resolved not in visited:
            visited.add(resolved)
            yield from (folder / name for name in self.names(folder, is_sorted=is_sorted))

    def folders(self, folder: Path) -> Iterator[Path]:
        """Yield the folders below ``folder``, from the outermost, without following symbolic links."""
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            below = []
            for name in self.names(here):
                path = here / name
                if name not in UNSEARCHED and path.is_dir() and not path.is_symlink():
                    below.append(path)
            yield from below
            waiting.extend(reversed(below))

    def split(self, file: ReadFile) -> tuple[dict[str, Any], str]:
        """Return the front matter of a file, and the text after it. Front matter that is not YAML is refused."""
        found = _FRONT_MATTER.match(file.text)
        if found is None:
            return {}, file.text
        body = file.text[found.end() :]
        if len(found[1]) > FRONT_MATTER_CHARS_MAX:
            self.refuse(file.path, f"front matter of more than {FRONT_MATTER_CHARS_MAX:,} characters")
            return {}, body
        for text in (found[1], _quoted(found[1])):
            try:
                fields = as_yaml(text)
            except ValueError:
                continue
            return (fields if isinstance(fields, dict) else {}), body
        self.refuse(file.path, "the front matter is not YAML")
        return {}, body


def _quoted(text: str) -> str:
    """Return front matter with quoted values, because agents accept ``paths: **/*.ts``."""
    lines = []
    for line in text.split("\n"):
        found = _UNQUOTED.fullmatch(line)
        lines.append(f"{found[1]}: {json.dumps(found[2])}" if found else line)
    return "\n".join(lines)


def as_yaml(text: str) -> Any:
    """Return the value of a YAML document. Raises ``ValueError`` if it is not one."""
    import yaml  # only few files have front matter

    try:
        loader = yaml.SafeLoader(text)
        loader.flatten_mapping = lambda node: None  # a few nested merges (`<<`) make billions of values
        return loader.get_single_data()
    except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
        raise ValueError(str(error)) from error


def as_json_object(file: ReadFile | None) -> dict[str, Any]:
    """Return the JSON object in a file; empty if there is none."""
    try:
        value = json.loads(file.text) if file else {}
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def strings(value: Any) -> tuple[str, ...]:
    """Return the text or the list of texts of a field."""
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def text_of(value: Any) -> str:
    """Return the text of a field; empty if it has none."""
    return value.strip() if isinstance(value, str) else ""
