"""Shell completion of sessions, entries, branches, labels, remotes, agents, and formats.

The metavar of a parameter determines its values: ``SESSION[@ENTRY]`` is completed with the sessions of the catalog, and
after ``@`` with the branches and labels of the session. The store is not opened, so that a completion is fast.
"""

from __future__ import annotations

import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import click
from click import shell_completion
from click.shell_completion import CompletionItem

from gitsession.cli.invocation import App, here, split
from gitsession.line_text import ago, on_a_line, shorten

if TYPE_CHECKING:
    from gitsession.index.catalogue import Catalogue, Row

_SESSIONS_MAX = 50
_NEWEST = 500
"""Number of sessions among which those of the current folder are searched if the user has not typed an id yet."""

_TITLE_CHARS = 50
_OID_CHARS = 12

_CANDIDATES = """
SELECT sid, coalesce(nullif(title, ''), nullif(first_words, ''), '(untitled)'), agent, project, updated_ms FROM sessions
WHERE sid IN (
    SELECT sid FROM sessions WHERE substr(sid, 1, length(?1)) = ?1 OR instr(sid, '-' || ?1)
    ORDER BY updated_ms DESC, sid LIMIT ?2)
ORDER BY updated_ms DESC, sid
"""
_BRANCHES = """
SELECT DISTINCT name FROM branches
WHERE sid IN (SELECT sid FROM sessions ORDER BY updated_ms DESC, sid LIMIT ?) ORDER BY name
"""


class _Candidate(NamedTuple):
    """A session in the catalog. The fields are those of ``Row``."""

    sid: str
    name: str
    agent: str
    project: str | None
    updated_ms: int


_Item = tuple[str, str]
"""A value, and its description."""


class _Values:
    """The values of parameters in the store of a command line. Without a catalog, there are none."""

    def __init__(self, app: App) -> None:
        self._app = app

    @functools.cached_property
    def catalogue(self) -> Catalogue | None:
        """The catalog as it is. An update could take long."""
        from gitsession.index.catalogue import Catalogue

        return Catalogue(self._app.location) if os.path.lexists(self._app.location) else None

    def _newest(self, start: str) -> list[_Candidate]:
        """Return the newest sessions whose short or whole ids begin with ``start``, those of the current folder first.

        Only the columns and rows that are shown are read. The condition is evaluated on the index of the newest
        sessions, which contains the ids.
        """
        from gitsession.index.current_folder import is_at_or_above

        catalogue = self.catalogue
        if catalogue is None:
            return []
        values = (start, _SESSIONS_MAX if start else _NEWEST)
        rows = [_Candidate(*row) for row in catalogue.db.execute(_CANDIDATES, values)]
        place = here()
        return sorted(rows, key=lambda row: not is_at_or_above(row.project, place))[:_SESSIONS_MAX]

    def _distinct(self, column: str) -> set[str]:
        catalogue = self.catalogue
        found = () if catalogue is None else catalogue.db.execute(f"SELECT DISTINCT {column} FROM sessions")
        return {value for (value,) in found if value}

    def sessions(self, incomplete: str) -> Iterator[_Item]:
        """Yield the sessions whose short or whole id starts with ``incomplete``, with their titles."""
        from gitsession.cli.session_table import short_ids

        rows = self._newest(incomplete)
        shorts = short_ids(rows)
        now_ms = time.time_ns() // 1_000_000
        for row in rows:
            ids = (shorts[row.sid], row.sid.rpartition("-")[2], row.sid)
            value = next((id for id in ids if id.startswith(incomplete)), row.sid)
            yield value, f"{shorten(row.name, _TITLE_CHARS)}  {on_a_line(row.agent)}, {ago(row.updated_ms, now_ms)}"

    def addresses(self, incomplete: str) -> Iterator[_Item]:
        """Yield sessions, or the entries of a session if ``incomplete`` contains ``@``."""
        at = incomplete.rfind("@")
        if at <= 0:
            yield from self.sessions(incomplete)
            return
        for name, about in self._entries(incomplete[:at] or "@", incomplete[at + 1 :]):
            yield f"{incomplete[: at + 1]}{name}", about

    def _entries(self, session: str, start: str) -> Iterator[_Item]:
        yield "leaf", "newest entry of the active branch"
        yield "root", "first entry"
        yield "user", "newest user message; user~1 is the one before it"
        yield "turn", "start of the newest turn; turn~1 is the one before it"
        row = self._row(session)
        catalogue = self.catalogue
        if row is not None and catalogue is not None:
            query = "SELECT oid FROM entries WHERE sid = ? AND oid >= ? AND oid < ? LIMIT ?"
            if start:
                found = catalogue.db.execute(query, (row.sid, start, f"{start}g", _SESSIONS_MAX))
                yield from ((oid[:_OID_CHARS], "entry") for (oid,) in found)
            yield from ((name, "branch") for name in row.branches)
            yield from self._labels(row.sid)

    def _row(self, session: str) -> Row | None:
        catalogue = self.catalogue
        try:
            return None if catalogue is None else catalogue.find(split(session)[0], here())
        except Exception:
            return None

    def _labels(self, sid: str | None = None) -> Iterator[_Item]:
        catalogue = self.catalogue
        if catalogue is not None:
            query = "SELECT DISTINCT value FROM marks WHERE what = 'label' AND value != '' AND (?1 IS NULL OR sid = ?1)"
            yield from ((label, "label") for (label,) in catalogue.db.execute(query, (sid,)))

    def labels(self, _: str) -> Iterator[_Item]:
        """Yield the labels of all sessions."""
        return self._labels()

    def branches(self, _: str) -> Iterator[_Item]:
        """Yield the branches of the newest sessions."""
        catalogue = self.catalogue
        found = () if catalogue is None else catalogue.db.execute(_BRANCHES, (_NEWEST,))
        return ((name, "") for (name,) in found)

    def agents(self, _: str) -> Iterator[_Item]:
        """Yield the formats, and the agents of all sessions."""
        from gitsession.formats import FORMATS

        return ((name, "") for name in sorted({*FORMATS, *self._distinct("agent")}))

    def formats(self, incomplete: str) -> Iterator[_Item]:
        """Yield the formats of ``export``."""
        yield from self.agents(incomplete)
        yield from ((name, "") for name in ("html", "jsonl", "llm", "markdown", "otlp"))

    def projects(self, _: str) -> Iterator[_Item]:
        """Yield the folders of all sessions."""
        return ((name, "") for name in sorted(self._distinct("project")))

    def remotes(self, _: str) -> Iterator[_Item]:
        """Yield the remotes with a URL in git's configuration of the store."""
        with open(os.path.join(self._app.location, "config"), encoding="utf-8", errors="replace") as file:
            names = re.findall(r'^\[remote "(.+)"\]\n(?:\s+\w.*\n)*?\s+url', file.read(), re.MULTILINE)
        return ((name, "") for name in names)

    def session_or_branch(self, incomplete: str) -> Iterator[_Item]:
        """Yield sessions and branches, for commands in which the session may be omitted."""
        yield from self.sessions(incomplete)
        yield from self.branches(incomplete)

    def of(self, parameter: click.Parameter) -> Callable[[str], Iterable[_Item]] | None:
        """Return the function that yields the values of a parameter; ``None`` if click completes the parameter."""
        for option in parameter.opts:
            if option in self._options:
                return self._options[option]
        metavar = parameter.metavar or (parameter.name or "").upper()
        if "ENTRY" in metavar or "@BRANCH" in metavar:
            return self.addresses
        if "BRANCH" in metavar:
            return self.session_or_branch
        if "SESSION" in metavar:
            return self.sessions
        return {"AGENT": self.agents, "FORMAT": self.agents, "REMOTE": self.remotes}.get(metavar)

    @property
    def _options(self) -> dict[str, Callable[[str], Iterable[_Item]]]:
        return {
            "--agent": self.agents,
            "--branch": self.branches,
            "--format": lambda _: (),
            "--label": self.labels,
            "--project": self.projects,
            "--to": self.formats,
        }


class _ShellComplete(shell_completion.ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return the values of the parameter at the cursor. A damaged store has none."""
        ctx = shell_completion._resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        found, incomplete = shell_completion._resolve_incomplete(ctx, args, incomplete)
        values = _Values(App(ctx.find_root().params.get("store")))
        function = values.of(found) if isinstance(found, click.Parameter) else None
        if function is None:
            return found.shell_complete(ctx, incomplete)
        items = ((on_a_line(value), about) for value, about in function(incomplete))
        return [CompletionItem(value, help=about or None) for value, about in items if value.startswith(incomplete)]


_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" word start="" type value reply
    word="${line##*[[:space:]]}"
    # bash replaces only the text after the last colon, or the text from the last @
    [[ $COMP_WORDBREAKS == *:* ]] && start="${word%%"${word##*:}"}"
    [[ $COMP_WORDBREAKS == *@* && ${word#"$start"} == *@* ]] && start="${word%%@*}"
    reply=$(env COMP_WORDS="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain)
                printf -v value %%q "${value#"$start"}"
                COMPREPLY+=("$value") ;;
        esac
    done <<< "$reply"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(_ShellComplete):
    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor, and the beginning of the word at the cursor.

        The words are those of the command line. bash would also split them at ``@`` and ``:``.
        """
        line = os.environ["COMP_WORDS"]
        words = shell_completion.split_arg_string(line)[1:]
        return (words, "") if line[-1:].isspace() or not words else (words[:-1], words[-1])

    def format_completion(self, item: CompletionItem) -> str:
        """Return the type and the value, which bash shows without a description."""
        return f"{item.type},{item.value}"


class _Zsh(_ShellComplete, shell_completion.ZshComplete):
    def format_completion(self, item: CompletionItem) -> str:
        """Return the item as click does, but with the backslashes of a described value escaped, as zsh requires."""
        value = item.value.replace("\\", "\\\\") if item.help else item.value
        return super().format_completion(CompletionItem(value, item.type, item.help))


class _Fish(_ShellComplete, shell_completion.FishComplete):
    # click's script cuts off a value or a title at its first comma
    source_template = shell_completion.FishComplete.source_template.replace("string split ", "string split -m 1 ")


SHELLS: Mapping[str, type[shell_completion.ShellComplete]] = {"bash": _Bash, "zsh": _Zsh, "fish": _Fish}


def complete(command: click.Command, name: str, variable: str) -> int:
    """Print the completions that the environment variable ``variable`` requests, and return the exit code.

    Nothing is printed if there is an error, because its message would appear in the command line of the user.
    """
    shell, _, instruction = os.environ[variable].partition("_")
    if shell not in SHELLS or instruction not in ("source", "complete"):
        return 1
    found = SHELLS[shell](command, {}, name, variable)
    try:
        text = found.source() if instruction == "source" else found.complete()
    except Exception:
        return 1
    if text:
        click.echo(text)
    return 0
