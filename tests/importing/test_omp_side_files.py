"""Tests of the side files of omp and pi: they are stored, and artifacts are written back."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from builders import entry, header, joined, slot
from commands import Run

import gitsession
from gitsession.formats.pi import side_files
from gitsession.sessions.attached_files import SessionAttachments

ID = "s1"
STEM = f"2026-02-01T00-00-00-000Z_{ID}"
OWN = f"sessions/-work/{STEM}"
CRUMB = "terminal-sessions/pts-3"


class Omp:
    """The folder of omp with one session and its side files."""

    def __init__(self, home: Path) -> None:
        self.folder = home / ".omp" / "agent"
        self.file = self.folder / f"{OWN}.jsonl"
        text = [{"type": "text", "text": "full output: artifact://0"}]
        answer = {"role": "assistant", "content": text, "provider": "x", "model": "m"}
        self.write(
            f"{OWN}.jsonl",
            joined(
                slot("T"),
                header(id=ID),
                entry("message", "a", None, message={"role": "user", "content": text}),
                entry("message", "b", "a", message=answer),
            ),
        )
        self.write(f"{OWN}/0.bash.log", b"the whole output of zyzzyva\n")
        self.write(f"{OWN}/Reviewer.md", b"# Findings\n")
        self.write(f"{OWN}/local/notes/plan.md", b"step one\n")
        self.write(f"{OWN}/Reviewer.jsonl", b"not a side file, but a session\n")
        self.write(CRUMB, f"/work\n{self.file}\ncwdstat 1 2\n".encode())
        self.write("terminal-sessions/pts-4", b"/work\n/elsewhere.jsonl\n")
        self.prompts(("look at zyzzyva", ID), ("another session's", "s2"))

    def write(self, name: str, data: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def prompts(self, *found: tuple[str, str]) -> None:
        db = sqlite3.connect(self.folder / "history.db")
        columns = "prompt TEXT NOT NULL UNIQUE, created_at INTEGER, cwd TEXT, session_id TEXT"
        db.execute(f"CREATE TABLE IF NOT EXISTS history (id INTEGER PRIMARY KEY AUTOINCREMENT, {columns})")
        insert = "INSERT INTO history (prompt, created_at, cwd, session_id) VALUES (?, 5, '/work', ?)"
        db.executemany(insert, found)
        db.commit()
        db.close()


@pytest.fixture
def omp(isolated_home: Path) -> Omp:
    return Omp(isolated_home)


def take(run: Run) -> tuple[str, list[str]]:
    """Import all sessions. Return the id of the session and the names of its new side files."""
    document = json.loads(run("--store", "s.git", "import", "--all", "--json"))
    [found] = [each for each in document["sessions"] if each["path"].endswith(f"{STEM}.jsonl")]
    return found["session"], found["side_files"]


def stored(here: Path, sid: str) -> dict[str, bytes]:
    """Return the newest content of each side file in the store."""
    with gitsession.Store.open(here / "s.git") as store:
        attachments = SessionAttachments(store.objects, sid)
        return {name: attachments.get(name) or b"" for name in attachments.nodes}


def test_side_files_of_omp_are_stored(omp: Omp, here: Path, run: Run) -> None:
    sid, added = take(run)
    expected = {
        f"{OWN}/0.bash.log": b"the whole output of zyzzyva\n",
        f"{OWN}/Reviewer.md": b"# Findings\n",
        f"{OWN}/local/notes/plan.md": b"step one\n",
        CRUMB: f"/work\n{omp.file}\ncwdstat 1 2\n".encode(),
        "history.db": b'{"prompt": "look at zyzzyva", "created_at": 5, "cwd": "/work", "session_id": "s1"}\n',
    }
    assert added == sorted(expected)
    assert stored(here, sid) == expected


def test_only_changed_side_files_are_stored_again(omp: Omp, here: Path, run: Run) -> None:
    take(run)
    assert json.loads(run("--store", "s.git", "import", "--all", "--json"))["sessions"] == []
    omp.write(f"{OWN}/1.bash.log", b"more\n")
    omp.prompts(("now this", ID))
    sid, added = take(run)
    assert added == ["history.db", f"{OWN}/1.bash.log"]
    assert b"now this" in stored(here, sid)["history.db"]


def test_a_terminal_that_continues_another_session_is_not_stored(omp: Omp, here: Path, run: Run) -> None:
    take(run)
    omp.write(CRUMB, b"/work\n/another.jsonl\n")
    omp.write(f"{OWN}/1.bash.log", b"more\n")
    sid, added = take(run)
    assert added == [f"{OWN}/1.bash.log"]
    assert b"another" not in stored(here, sid)[CRUMB]


def test_resume_writes_the_artifacts_back_after_omp_lost_them(omp: Omp, run: Run) -> None:
    sid, _ = take(run)
    shutil.rmtree(omp.folder)
    resumed = Path(json.loads(run("--store", "s.git", "resume", sid, "--in", "omp", "--json"))["path"])
    artifacts = resumed.with_suffix("")
    found = {str(path.relative_to(artifacts)): path.read_bytes() for path in artifacts.rglob("*") if path.is_file()}
    assert found == {
        "0.bash.log": b"the whole output of zyzzyva\n",
        "Reviewer.md": b"# Findings\n",
        "local/notes/plan.md": b"step one\n",
    }
    assert not (omp.folder / "terminal-sessions").exists()
    assert not (omp.folder / "history.db").exists()


def test_resume_overwrites_no_artifact(omp: Omp, run: Run) -> None:
    sid, _ = take(run)
    omp.write(f"{OWN}/Reviewer.md", b"changed later")
    (omp.folder / f"{OWN}/0.bash.log").unlink()
    run("--store", "s.git", "resume", sid, "--in", "omp")
    assert (omp.folder / f"{OWN}/Reviewer.md").read_bytes() == b"changed later"


@pytest.mark.parametrize("agent", ["claude", "codex", "pi"])
def test_another_agent_gets_no_side_files_of_omp(omp: Omp, run: Run, isolated_home: Path, agent: str) -> None:
    sid, _ = take(run)
    run("--store", "s.git", "resume", sid, "--in", agent)
    written = [path for path in isolated_home.rglob("*") if path.is_file() and omp.folder not in path.parents]
    assert not [path for path in written if b"zyzzyva" in path.read_bytes()]


def test_links_and_pipes_among_the_artifacts_are_not_read(omp: Omp, here: Path, run: Run) -> None:
    secret = here / "secret.txt"
    secret.write_text("do not read me")
    (omp.folder / f"{OWN}/link.md").symlink_to(secret)
    (omp.folder / f"{OWN}/folder").symlink_to(here)
    os.mkfifo(omp.folder / f"{OWN}/pipe.log")
    (omp.folder / "terminal-sessions/pts-9").symlink_to(omp.folder / CRUMB)
    sid, _ = take(run)
    assert not [
        name for name in stored(here, sid) if "link" in name or "folder" in name or "pipe" in name or "9" in name
    ]
    assert b"do not read me" not in b"".join(stored(here, sid).values())


@pytest.mark.parametrize("damage", ["garbage", "link", "no table", "locked"])
def test_an_unreadable_prompt_history_does_not_stop_the_import(omp: Omp, here: Path, run: Run, damage: str) -> None:
    path = omp.folder / "history.db"
    db = sqlite3.connect(path, isolation_level=None)
    if damage == "garbage":
        path.write_bytes(b"SQLite format 3\0" + bytes(5000))
    elif damage == "link":
        path.rename(here / "history.db")
        path.symlink_to(here / "history.db")
    elif damage == "no table":
        db.execute("DROP TABLE history")
    else:
        db.execute("BEGIN EXCLUSIVE")
    _, added = take(run)
    assert "history.db" not in added
    assert f"{OWN}/0.bash.log" in added
    db.close()


def test_a_secret_in_an_artifact_is_redacted(omp: Omp, here: Path, run: Run) -> None:
    key = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]
    omp.write(f"{OWN}/2.bash.log", f"token {key}\n".encode())
    sid, _ = take(run)
    assert key.encode() not in stored(here, sid)[f"{OWN}/2.bash.log"]


@pytest.mark.parametrize(
    "name",
    ["sessions/-p/s/../../../x", "sessions/-p/s/..", "sessions/-p/s/a\\..\\b", "sessions/-p/s/\0", "sessions/-p/s//x",
     "sessions/-p/s", "/sessions/-p/s/x", "history.db", "terminal-sessions/pts-1", "blob:sha256:x", "agent.db"],
)  # fmt: skip
def test_a_name_that_leaves_the_artifacts_is_not_written(name: str) -> None:
    assert side_files.path_of(name, "sessions/-q/t.jsonl") is None


def test_an_artifact_is_written_beside_the_resumed_file() -> None:
    assert side_files.path_of("sessions/-p/s/a/b.md", "sessions/-q/t.jsonl") == "sessions/-q/t/a/b.md"


# ---- pi

LOG = "pi-bash-0123456789abcdef.log"


def pi_session(place: Path, *outputs: str) -> Path:
    """Create a session of pi whose shell commands have their complete outputs in the files ``outputs``."""
    messages = [
        {"role": "bashExecution", "command": "ls", "output": "cut", "truncated": True, "fullOutputPath": output}
        for output in outputs
    ]
    path = place / "s.jsonl"
    path.write_bytes(
        joined(header(), *(entry("message", f"e{n}", None, message=each) for n, each in enumerate(messages)))
    )
    return path


def test_complete_outputs_of_pi_are_stored(here: Path, run: Run, tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    (temporary / LOG).write_bytes(b"the whole output\n")
    path = pi_session(here, f"/elsewhere/{LOG}", f"{temporary}/{LOG}")
    [found] = json.loads(run("--store", "s.git", "import", str(path), "--json"))["sessions"]
    assert found["side_files"] == [LOG]
    (temporary / LOG).unlink()
    assert stored(here, found["session"]) == {LOG: b"the whole output\n"}
    run("--store", "s.git", "resume", found["session"], "--in", "pi")
    assert not (temporary / LOG).exists()


@pytest.mark.parametrize(
    "name", ["id_rsa", "pi-bash-x.log", "pi-bash-0123456789abcdef.log/../id_rsa", "pi-bash-01234567.txt"]
)
def test_a_session_of_pi_cannot_name_any_other_file(here: Path, run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "id_rsa").write_text("do not read me")
    (tmp_path / "pi-bash-x.log").write_text("do not read me")
    path = pi_session(here, f"{tmp_path}/{name}")
    [found] = json.loads(run("--store", "s.git", "import", str(path), "--json"))["sessions"]
    assert found["side_files"] == []


def test_search_finds_the_side_files_of_omp(omp: Omp, run: Run) -> None:
    sid, _ = take(run)
    hits = run("--store", "s.git", "search", "zyzzyva")
    assert "0.bash.log" in hits
    assert "history.db" in hits
    assert "look at zyzzyva" in run("--store", "s.git", "show", sid, "--side-file", "history.db")
