"""The side files of sessions of pi and omp (docs/decisions/0082).

Those of pi are the complete outputs of shell commands, which pi writes to the folder for temporary files. Those of omp
are the artifacts of the session (complete outputs of tools, and results of sub-agents), its prompts in the prompt
history, and the marks of the terminals that continue it. omp's blobs are sidecar files, because entries refer to them.
"""

from __future__ import annotations

import re

from gitsession.formats.base.format import SharedLines, SideFiles
from gitsession.formats.base.record import Source
from gitsession.formats.prompt_histories import OMP_COLUMNS, OMP_TABLE

_TERMINALS = "terminal-sessions"
_OUTPUT = re.compile(rb'"fullOutputPath":"(/[^"\\\x00-\x1f]{0,1000})/(pi-bash-[0-9a-f]{8,32}\.log)"')
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


def outputs(source: Source | None) -> SideFiles | None:
    """Return the outputs of shell commands of a session of pi. The folder is that of the newest output.

    Only names that pi gives to such files are accepted, because a session file of another author can name any file.
    """
    found = [match for payload in source.payloads() for match in _OUTPUT.findall(payload)] if source is not None else []
    if not found:
        return None
    folder = found[-1][0]
    names = {name.decode() for place, name in found if place == folder}
    return SideFiles(folder.decode("utf-8", "replace"), sorted(names))


def of_session(name: str, history: str, id: str | None) -> SideFiles | None:
    """Return the side files of the session file ``name``, such as ``/home/u/.omp/agent/sessions/-p/<time>_<id>``.

    A sub-agent has none of its own: its files are among the artifacts of the session that started it.
    """
    folder, _, rest = name.rpartition("/sessions/")
    bucket, _, stem = rest.partition("/")
    if not folder or not stem or "/" in stem:
        return None
    id = id or stem.partition("_")[2]
    return SideFiles(
        folder,
        [f"sessions/{bucket}/{stem}/**"],
        [SharedLines(history, "session_id", id, table=OMP_TABLE, columns=OMP_COLUMNS)],
        [(f"{_TERMINALS}/*", f"{name}.jsonl")],
    )


def path_of(name: str, file: str) -> str | None:
    """Return the path below omp's folder at which the session in ``file`` needs the side file ``name``.

    omp marks the terminal itself when it continues a session there, and its database is never written to.
    """
    top, *rest = name.split("/")
    artifact = rest[2:]  # after the bucket and the session
    if top != "sessions" or not artifact or any(part in ("", ".", "..") or _UNSAFE.search(part) for part in artifact):
        return None
    return "/".join([file.removesuffix(".jsonl"), *artifact])
