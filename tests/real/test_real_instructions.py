"""The real programs send their models the instructions that ``load`` returns: the same texts in the same order.

Each program is started in a folder of a repository, offline, and a scripted model logs its request.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from handover import NEXT, asked, is_there
from instruction_files import Folders

from gitsession.instructions.scopes import in_force

FILES = {
    "home/.claude/CLAUDE.md": "user memory\n<!-- a comment -->\n\nafter it @~/own.md\n",
    "home/own.md": "file of the user",
    "home/.claude/rules/b.md": "rule b of the user",
    "home/.claude/rules/a.md": "rule a of the user",
    "home/.codex/AGENTS.md": "\nguidance of codex\n",
    "home/.config/opencode/AGENTS.md": "guidance of opencode",
    "home/.pi/agent/AGENTS.md": "guidance of pi",
    "home/.omp/agent/AGENTS.md": "guidance of omp @more.md",
    "home/.omp/agent/more.md": "imported guidance",
    "home/.omp/agent/RULES.md": "rule of omp",
    "CLAUDE.md": "memory above",
    "repo/AGENTS.md": "guidance of the root\n",
    "repo/AGENTS.override.md": "guidance that overrides\n\n",
    "repo/CLAUDE.md": "memory of the root `@docs/code.md`\n\n```\n@docs/code.md\n```\n",
    "repo/docs/code.md": "only an example",
    "repo/docs/guide.md": "guide of the project",
    "repo/opencode.json": '{"instructions": ["docs/gui*.md"]}',
    "repo/.claude/rules/always.md": "---\ndescription: x\n---\nrule that applies always",
    "repo/.claude/rules/paths.md": "---\npaths: '*.ts'\n---\nrule for scripts",
    "repo/CLAUDE.local.md": "local memory",
    "repo/app/CLAUDE.md": "memory of the folder @one.md",
    "repo/app/AGENTS.md": "guidance of the folder " + "x" * 32_768,
    "repo/app/.omp/rules/always.md": "---\nalwaysApply: true\n---\nrule of the project",
    "repo/app/below/CLAUDE.md": "memory below",
    **{f"repo/app/{name}.md": f"link {name} @{after}.md" for name, after in zip(
        ("one", "two", "three", "four", "five"), ("two", "three", "four", "five", "six"), strict=True)},
}  # fmt: skip


def request_of(agent: str, folders: Folders) -> str:
    """Return all texts of the longest request that the program sends for one prompt."""
    plan: Any = SimpleNamespace(export=SimpleNamespace(agent=agent), commands=[[agent]], cwd=str(folders.repo / "app"))
    asked(plan, folders.home)
    bodies = [json.loads(line).get("body") or {} for line in (folders.base / "log").read_bytes().splitlines()]
    body = max((json.dumps(body) for body in bodies if NEXT in json.dumps(body)), key=len)
    return "\n".join(texts(json.loads(body)))


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in texts(each)]


@pytest.mark.real
@pytest.mark.parametrize("agent", ["claude", "codex", "opencode", "pi", "omp"])
def test_claude_1_codex_2_opencode_2_pi_2_omp_2_the_request_has_the_same_texts_in_order(
    agent: str, tmp_path: Any
) -> None:
    if not is_there(agent):
        pytest.skip(f"the real {agent} is not at hand")
    folders = Folders(tmp_path.resolve() / "all")
    folders.write(FILES)
    sent = request_of(agent, folders)
    found = folders.load(agent, "repo/app", nested=True)
    active = in_force(found)
    assert len(active) >= 3
    at = 0
    for file in active:
        at = sent.index(file.content, at) + len(file.content)
    missing = [file.content for file in found.files if file not in active and file.content in sent]
    assert missing == []
    assert "only an example" not in sent
