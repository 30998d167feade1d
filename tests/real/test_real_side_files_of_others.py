"""Side files that the real opencode and omp wrote, and that they read after a resume. It requires ``$LAB``."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest
from builders import entry, header, joined, slot
from commands import Run
from opencode_files import START_MS, answer, export, info, user
from real_opencode import Lab, can_run

import gitsession
from gitsession.sessions.attached_files import SessionAttachments


def stored(sid: str) -> dict[str, bytes]:
    """Return the newest content of each side file in the store ``s.git``."""
    with gitsession.Store.open(Path("s.git")) as store:
        attachments = SessionAttachments(store.objects, sid)
        return {name: attachments.get(name) or b"" for name in attachments.nodes}


def take(run: Run, path: Path) -> str:
    [found] = json.loads(run("--store", "s.git", "import", str(path), "--json"))["sessions"]
    return str(found["session"])


# ---- opencode

needs_opencode = pytest.mark.skipif(not can_run(), reason="the real program is not at hand")

TODOS = [
    {"content": "Mend the parser", "status": "in_progress", "priority": "high"},
    {"content": "Write tests", "status": "pending", "priority": "low"},
]
STEPS = [
    {"tool": "todowrite", "args": {"todos": TODOS}},
    {"tool": "bash", "args": {"command": "seq 1 5000", "description": "Count"}},
    {"text": "Done."},
]
ANSWERS = {"rules": [{"needle": "You are a title generator", "step": {"text": "A title"}}], "steps": STEPS}


@needs_opencode
def test_the_todos_and_outputs_of_the_real_opencode_are_stored_and_given_back(
    here: Path, run: Run, isolated_home: Path
) -> None:
    lab = Lab(here / "lab")
    lab.run('$OC run "Please go" < /dev/null > /dev/null', answers=json.dumps(ANSWERS))
    data = lab.data / "opencode"
    [output] = (data / "tool-output").iterdir()
    sid = take(run, data / "opencode.db")
    found = stored(sid)
    assert json.loads(found["opencode.db/todo"]) == TODOS
    assert found[f"tool-output/{output.name}"] == output.read_bytes() == b"".join(b"%d\n" % n for n in range(1, 5001))
    run("--store", "s.git", "resume", sid, "--in", "opencode")
    assert (isolated_home / "data/opencode/tool-output" / output.name).read_bytes() == output.read_bytes()


SES = "ses_e0000000affeTestTestTest01"
STATE = {
    "share": {"url": "https://opncd.ai/s/abc"},
    "summary": {"additions": 3, "deletions": 1, "files": 2},
    "permission": [{"permission": "bash", "pattern": "*", "action": "allow"}],
    "revert": {"messageID": "msg_u2", "diff": ""},
    "time": {"created": START_MS, "updated": START_MS + 9, "archived": START_MS + 10},
}


@needs_opencode
def test_the_real_opencode_takes_the_state_of_a_session_back(here: Path, run: Run) -> None:
    path = {"path": {"cwd": "/work", "root": "/work"}}
    messages: list[dict[str, Any]] = [
        user("msg_u1", "Go", at=1), answer("msg_a1", "Done", at=2, **path),
        user("msg_u2", "More", at=3), answer("msg_a2", "Again", at=4, parentID="msg_u2", **path),
    ]  # fmt: skip
    text = export(messages, {**info(), "id": SES, **STATE}).decode().replace('"ses_one"', f'"{SES}"')
    (here / "in.json").write_text(text)
    sid = take(run, here / "in.json")
    lab = Lab(here / "lab")
    (here / "out.json").write_text(run("--store", "s.git", "export", sid, "--to", "opencode"))
    lab.run(f'$OC import "{here}/out.json"')
    db = sqlite3.connect(lab.data / "opencode/opencode.db")
    columns = "share_url, summary_additions, summary_files, permission, revert, time_archived"
    url, added, files, permission, revert, archived = db.execute(f"SELECT {columns} FROM session").fetchone()
    assert (url, added, files, archived) == ("https://opncd.ai/s/abc", 3, 2, START_MS + 10), lab.said
    assert json.loads(permission) == STATE["permission"]
    assert json.loads(revert) == STATE["revert"]


# ---- omp

OMP = Path(os.environ.get("LAB", "/nonexistent")) / "omp/node_modules/@oh-my-pi"
BUN = Path(os.environ.get("LAB", "/nonexistent")) / "bun2/node_modules/bun/bin/bun.exe"
needs_omp = pytest.mark.skipif(not OMP.is_dir() or not BUN.exists(), reason="the real program is not at hand")

BEFORE = """
const [root, file, folder] = process.argv.slice(2);
const source = `${root}/pi-coding-agent/src/session/`;
const { HistoryStorage } = await import(source + "history-storage.ts");
const { ArtifactManager } = await import(source + "artifacts.ts");
const { writeTerminalBreadcrumb } = await import(source + "session-paths.ts");
const history = HistoryStorage.open(`${folder}/history.db`);
history.setSessionResolver?.(() => "s1");
await history.add("look at this", "/work");
await new Promise((done) => setTimeout(done, 500));
HistoryStorage.close?.();
const artifacts = new ArtifactManager(file.slice(0, -6));
console.log(await artifacts.save("the whole output", "bash"));
writeTerminalBreadcrumb("/work", file);
process.exit(0);
"""
AFTER = """
const [root, file] = process.argv.slice(2);
const source = `${root}/pi-coding-agent/src/session/`;
const { ArtifactManager } = await import(source + "artifacts.ts");
const { SessionManager } = await import(source + "session-manager.ts");
const path = await new ArtifactManager(file.slice(0, -6)).getPath("0");
console.log(await Bun.file(path).text());
await SessionManager.open(file);
process.exit(0);
"""


def with_omp(here: Path, home: Path, script: str, *words: str) -> str:
    path = here / "script.mjs"
    path.write_text(script)
    variables = {"HOME": str(home), "PATH": os.environ["PATH"], "TMUX_PANE": "7"}
    done = subprocess.run(
        [BUN, path, OMP, *words], capture_output=True, env=variables, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


@needs_omp
def test_the_side_files_of_the_real_omp_are_stored_and_given_back(here: Path, run: Run, isolated_home: Path) -> None:
    folder = isolated_home / ".omp/agent"
    file = folder / "sessions/-work/2026-02-01T00-00-00-000Z_s1.jsonl"
    file.parent.mkdir(parents=True)
    said = {"role": "user", "content": [{"type": "text", "text": "see artifact://0"}]}
    reply = {"role": "assistant", "content": said["content"], "provider": "x", "model": "m"}
    file.write_bytes(
        joined(slot("T"), header(id="s1", cwd="/work"), entry("message", "a", None, message=said),
               entry("message", "b", "a", message=reply))
    )  # fmt: skip
    with_omp(here, isolated_home, BEFORE, str(file), str(folder))
    sid = take(run, file)
    found = stored(sid)
    assert set(found) == {
        "history.db",
        "terminal-sessions/tmux-7",
        f"{file.relative_to(folder).with_suffix('')}/0.bash.log",
    }
    assert json.loads(found["history.db"])["prompt"] == "look at this"
    shutil.rmtree(folder)
    resumed = json.loads(run("--store", "s.git", "resume", sid, "--in", "omp", "--json"))["path"]
    assert not (folder / "terminal-sessions").exists()
    assert with_omp(here, isolated_home, AFTER, resumed) == "the whole output"
    assert (folder / "terminal-sessions/tmux-7").read_text().splitlines()[1] == resumed
