"""Comparison of the instructions in contexts with the requests of the real Claude Code and codex.

The tests require ``$LAB`` with the programs, and permission for a network namespace. Each file of instructions and each
skill has a unique mark. The program and a context must have the same marks, in the same order of their first places.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import real_claude
import real_codex

from gitsession import Message, Store
from gitsession.api import Session
from gitsession.instructions.load import load

MARK = re.compile(r"\bM-[a-z]+\b")
SKILL = "---\nname: {0}\ndescription: M-{0}list\n---\nM-{0}body $ARGUMENTS\n"

RUN = """
ip link set lo up
python3 "{model}" --script "{script}" --log "{log}" --portfile "{port}" --max-seconds 90 > /dev/null &
model=$!
for i in $(seq 1200); do [ -s "{port}" ] && break; sleep 0.1; done
{command}
code=$?
kill $model
exit $code
"""

CLAUDE = (
    'ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat "{port}") timeout 60 "{program}" -p "{prompt}" {more} '
    '--output-format json --permission-mode acceptEdits --allowedTools "Read Skill" < /dev/null'
)
CODEX = (
    'sed -e "s#@PORT@#$(cat "{port}")#" -e "s#@WORK@#{work}#" {peers}/codex_config.toml.tmpl '
    '> "$CODEX_HOME/config.toml"; '
    "timeout 60 \"{program}\" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox --json '{prompt}' "
    "< /dev/null"
)


class Run:
    """A home, a workspace and runs of a program in them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home, self.work = folder, folder / "home", folder / "work"
        self.work.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        self.count = 0
        self.more: dict[str, str] = {}

    def write(self, **files: str) -> None:
        """Write files below the folder. In their names, ``__`` is a slash, and ``_1`` a dot."""
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_1", ".")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "CLAUDE_CONFIG_DIR": str(self.home / ".claude"),
            "CODEX_HOME": str(self.home / ".codex"), "ANTHROPIC_API_KEY": "mock-not-a-key", "IS_SANDBOX": "1",
            **{f"DISABLE_{name}": "1" for name in ("TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER", "BUG_COMMAND")},
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", **self.more,
        }  # fmt: skip

    def ask(self, command: str, steps: Any, cwd: Path, **fields: Any) -> list[Any]:
        """Run the program, and return the bodies of its requests."""
        self.count += 1
        script, log, port = (self.folder / f"{name}{self.count}" for name in ("script", "log", "port"))
        script.write_text(json.dumps(steps))
        ran = command.format(port=port, **fields)
        text = RUN.format(model=real_claude.MODEL, script=script, log=log, port=port, command=ran)
        done = subprocess.run(
            ["unshare", "-n", "bash", "-c", text], cwd=cwd, env=self.environment, capture_output=True, timeout=120
        )
        bodies = [json.loads(line)["body"] for line in log.read_bytes().splitlines() if line.startswith(b"{")]
        assert bodies, done.stdout + done.stderr
        return bodies


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git") as opened:
        yield opened


def marks(messages: Iterable[Any]) -> list[str]:
    """Return the marks in messages, in the order of their first places."""
    return list(dict.fromkeys(MARK.findall(json.dumps(list(messages)).replace("\\n", " "))))


def recorded(store: Store, run: Run, agent: str, pattern: str, cwd: Path, touched: Iterable[Path] = ()) -> Session:
    """Import the program's session, and record the instructions as the loader finds them."""
    [path] = run.home.rglob(pattern)
    session = store.session(store.import_file(path)[0].session)
    found = load(agent, cwd, home=run.home, environment=run.environment, touched=touched)
    start = session.history()[0]
    session.record_instructions(found, at_ms=start.author_seconds * 1000)
    return session


# Claude Code

claude_is_there = real_claude.PROGRAM.exists() and real_claude.MODEL.exists() and real_claude.can_unshare()


@pytest.mark.skipif(not claude_is_there, reason="the real Claude Code is not at hand")
def test_real_claude_code_has_the_same_instructions_in_the_same_order(store: Store, run: Run) -> None:
    """I1 to I5 and W6, before and after a compaction by the program."""
    run.write(
        home___1claude__CLAUDE_1md="M-user\n", home___1claude__rules__u_1md="M-userrule\n",
        home___1claude__skills__fmt__SKILL_1md=SKILL.format("fmt"),
        work__CLAUDE_1md="M-project\n@docs/extra.md\n", work__docs__extra_1md="M-import\n",
        work__CLAUDE_1local_1md="M-local\n", work___1claude__rules__plain_1md="M-rule\n",
        work___1claude__rules__py_1md='---\npaths:\n  - "src/**/*.py"\n---\nM-pathrule\n',
        work___1claude__skills__deploy__SKILL_1md=SKILL.format("deploy"),
        work__sub__CLAUDE_1md="M-nested\n", work__src__a_1py="x = 1\n", work__sub__b_1txt="y\n",
    )  # fmt: skip
    read, nested = run.work / "src/a.py", run.work / "sub/b.txt"
    steps = [
        {"tool": "Read", "args": {"file_path": str(read)}}, {"tool": "Read", "args": {"file_path": str(nested)}},
        {"tool": "Skill", "args": {"skill": "deploy", "args": "now"}}, {"text": "ok"},
    ]  # fmt: skip
    words = {"program": real_claude.PROGRAM}
    first = run.ask(CLAUDE, steps, run.work, prompt="M-first", more="", **words)
    session = recorded(store, run, "claude", "projects/*/*.jsonl", run.work, [read, nested])
    theirs = [marks(body["messages"]) for body in first if "M-first" in json.dumps(body.get("messages"))]
    assert theirs[-1] == [
        "M-user", "M-userrule", "M-project", "M-import", "M-rule", "M-local", "M-first", "M-fmtlist", "M-deploylist",
        "M-pathrule", "M-nested", "M-deploybody",
    ]  # fmt: skip
    assert marks(session.context().request("anthropic")["messages"]) == theirs[-1]
    prompt = next(node for node in session.history() if node.role == "user")
    assert marks(session.context(prompt).request("anthropic")["messages"]) == theirs[0]
    run.ask(
        CLAUDE, [{"text": "<summary>\nso far\n</summary>"}], run.work, prompt="/compact", more="--continue", **words
    )
    after = run.ask(CLAUDE, [{"text": "done"}], run.work, prompt="M-second", more="--continue", **words)
    [path] = run.home.rglob("projects/*/*.jsonl")
    store.import_file(path)
    theirs = [marks(body["messages"]) for body in after if "M-second" in json.dumps(body.get("messages"))]
    assert "M-pathrule" not in theirs[0]
    assert marks(session.context().request("anthropic")["messages"]) == theirs[0]


@pytest.mark.skipif(not claude_is_there, reason="the real Claude Code is not at hand")
def test_real_claude_code_shows_active_skills_again_after_its_compaction(store: Store, run: Run) -> None:
    """W6: the list of skills is not sent again within a run, and rules only once a matching file is read."""
    run.write(
        work__CLAUDE_1md="M-project\n", work___1claude__skills__deploy__SKILL_1md=SKILL.format("deploy"),
        work__a_1txt="x\n",
    )  # fmt: skip
    run.more = {"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE": "5", "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000"}
    steps = [
        {"tool": "Skill", "args": {"skill": "deploy", "args": "now"}},
        {"tool": "Read", "args": {"file_path": str(run.work / "a.txt")}, "in": 195_000}, {"text": "ok"},
    ]  # fmt: skip
    rules = [{"needle": "Respond with TEXT ONLY", "step": {"text": "<summary>\nso far\n</summary>"}}]
    script = {"rules": rules, "steps": steps}
    bodies = run.ask(CLAUDE, script, run.work, prompt="M-first", more="", program=real_claude.PROGRAM)
    sent = [body["messages"] for body in bodies if "so far" in json.dumps(body.get("messages"))]
    theirs = [mark for mark in marks(sent[-1]) if mark != "M-deploylist"]
    assert theirs == ["M-project", "M-deploybody"]
    session = recorded(store, run, "claude", "projects/*/*.jsonl", run.work)
    ours = marks(session.context().request("anthropic")["messages"])
    assert [mark for mark in ours if mark != "M-deploylist"] == theirs


# codex


@pytest.mark.skipif(not real_codex.is_there(), reason="the real codex is not at hand")
def test_real_codex_has_the_same_instructions_in_the_same_order(store: Store, run: Run) -> None:
    """I1, I3, I4 and I7: the program's own session, and a session of gitsession with the same instructions."""
    run.write(
        home___1codex__AGENTS_1md="M-user\n", work__AGENTS_1md="M-project\n", work__sub__AGENTS_1md="M-below\n",
        work___1agents__skills__deploy__SKILL_1md=SKILL.format("deploy"),
    )  # fmt: skip
    cwd = run.work / "sub"
    bodies = run.ask(
        CODEX, [{"text": "ok"}], cwd, prompt="M-first $deploy", program=real_codex.PROGRAM, work=run.work,
        peers=real_codex.PEERS,
    )  # fmt: skip
    theirs = next(body["input"] for body in bodies if "M-first" in json.dumps(body.get("input")))
    assert marks(theirs) == [
        "M-deploylist", "M-user", "M-project", "M-below", "M-first", "M-deploybody",
    ]  # fmt: skip
    imported = recorded(store, run, "codex", "rollout-*.jsonl", cwd)
    ours = imported.context().request("codex")["input"]
    assert marks(ours) == marks(theirs)
    assert json.dumps(ours).count("M-project") == 1
    written = store.new_session(agent="codex")
    found = imported.instructions()
    assert found is not None
    written.record_instructions(found)
    written.append(Message.user("M-first $deploy"))
    made = written.context().request("codex")["input"]
    assert marks(made) == marks(theirs)
    texts = [
        [part["text"] for item in items for part in item.get("content", ()) if part["text"].startswith("# AGENTS.md")]
        for items in (theirs, made)
    ]
    assert texts[0] == texts[1]
    assert len(texts[0]) == 1
