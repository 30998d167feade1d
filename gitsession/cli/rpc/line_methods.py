"""Methods of ``gitsession rpc`` for sessions as files of an agent's lines."""

from __future__ import annotations

from gitsession.cli.rpc.results import AppendedLines, ReadLines
from gitsession.cli.rpc.service import RpcService


def new_lines(service: RpcService, agent: str, lines: list[str]) -> AppendedLines:
    """Create a session from the first lines of an agent's session file. It is durable when the answer is sent.

    The entries are those that an import of the file would store.

    Args:
        agent: The agent whose format the lines have: `omp` or `pi`.
        lines: The lines, without line ends. The first one is the header.
    """
    done = service.lines.new(agent, [_encoded(line) for line in lines])
    return {"session": done.session, "count": done.count}


def append_lines(service: RpcService, session: str, lines: list[str], after: int) -> AppendedLines:
    """Append lines to the file of a session: all of them, or none. They are durable when the answer is sent.

    Args:
        session: The session.
        lines: The lines, without line ends.
        after: Number of lines that the session must have. If it has others, the error is `LeafMoved`.
    """
    done = service.lines.append(service.session(session).id, [_encoded(line) for line in lines], after=after)
    return {"session": done.session, "count": done.count}


def read_lines(service: RpcService, session: str, after: int = 0, limit: int = 10_000) -> ReadLines:
    """Return lines of the file of a session, with the secrets in the local vault.

    Args:
        session: The session.
        after: Number of lines to leave out.
        limit: Maximum number of lines.
    """
    found = service.lines.read(service.session(session).id, after=max(after, 0), limit=max(limit, 0))
    lines = [line.decode(errors="replace") for line in found.lines]
    return {"session": found.session, "lines": lines, "count": found.count}


def _encoded(line: str) -> bytes:
    """Return a line in UTF-8. Half of a surrogate pair becomes an invalid byte, for which the line is refused."""
    return line.encode(errors="surrogatepass")
