"""Comparison of contexts after reverts and forks of threads by codex's app server with its next requests.

It requires ``$LAB`` with the program and permission for a network namespace. The first argument of the script below is
its working directory.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import real_codex
from codex_files import import_files

from gitsession.api import Store

pytestmark = pytest.mark.skipif(not real_codex.is_there(), reason="the real codex is not at hand")

DRIVER = r"""
import itertools, json, os, subprocess, sys, time
from pathlib import Path
folder, program, peers = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
home, work, port = folder / "home/.codex", folder / "work", folder / "port"
home.mkdir(parents=True); work.mkdir()
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
(folder / "script.json").write_text(json.dumps([{"text": f"A{n}"} for n in range(1, 40)]))
model = subprocess.Popen([sys.executable, f"{peers}/mock_llm.py", "--script", folder / "script.json", "--log",
                          folder / "requests.jsonl", "--portfile", port, "--max-seconds", "120"])
while not (port.exists() and port.read_text()): time.sleep(0.05)
config = Path(peers, "codex_config.toml.tmpl").read_text()
(home / "config.toml").write_text(config.replace("@PORT@", port.read_text()).replace("@WORK@", str(work)))
env = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "CODEX_HOME": str(home)}
server = subprocess.Popen([program, "app-server"], cwd=work, env=env, text=True, stdin=-1, stdout=-1, stderr=-3)
ids = itertools.count(1)
def call(method, **params):
    id = next(ids)
    server.stdin.write(json.dumps({"id": id, "method": method, "params": params}) + "\n"); server.stdin.flush()
    for line in server.stdout:
        said = json.loads(line)
        if said.get("id") == id and "method" not in said: return said["result"]
def turn(thread, text):
    id = call("turn/start", threadId=thread, input=[{"type": "text", "text": text}])["turn"]["id"]
    for line in server.stdout:
        said = json.loads(line)
        if said.get("method") == "turn/completed" and said["params"]["turn"]["id"] == id: return id
call("initialize", clientInfo={"name": "t", "title": None, "version": "1"}, capabilities={"experimentalApi": True})
thread = call("thread/start", cwd=str(work), historyMode="paginated")["thread"]["id"]
first, _, third = [turn(thread, f"Q{n}") for n in (1, 2, 3)]
call("thread/revert", threadId=thread, beforeTurnId=third); turn(thread, "Q4"); fifth = turn(thread, "Q5")
call("thread/revert", threadId=thread, beforeTurnId=fifth); turn(thread, "Q6")
whole = call("thread/fork", threadId=thread)["thread"]["id"]; turn(whole, "Q7")
early = call("thread/fork", threadId=thread, lastTurnId=first)["thread"]["id"]; turn(early, "Q8")
print(json.dumps({"thread": thread, "whole": whole, "early": early}))
server.stdin.close(); server.wait(20); model.kill()
"""

SAID = {
    "thread": ["Q1", "A1", "Q2", "A2", "Q4", "A4", "Q6", "A6"],
    "whole": ["Q1", "A1", "Q2", "A2", "Q4", "A4", "Q6", "A6", "Q7", "A7"],
    "early": ["Q1", "A1", "Q8", "A8"],
}


def test_reverted_and_forked_thread_continues_in_a_new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["unshare", "-n", sys.executable, "-c", DRIVER, tmp_path / "made", real_codex.PROGRAM, real_codex.PEERS]
    (tmp_path / "made").mkdir()
    ran = subprocess.run(words, capture_output=True, text=True, timeout=90)
    assert ran.returncode == 0, ran.stderr[-2000:]
    ids = json.loads(ran.stdout.splitlines()[-1])
    files = {path.name: path for path in (tmp_path / "made").rglob("rollout-*.jsonl")}
    with Store.create(tmp_path / "store.git") as store:
        import_files(store, files.values())
        rows = {row.source_id: row.sid for row in store.sessions()}
        assert rows.keys() == set(ids.values())
        assert store.verify().problems == []
        for story, id in ids.items():
            sent = store.export(rows[id])
            written = {Path(sent.path).name: sent.data, **dict(sent.other_files)}
            assert written == {name: files[name].read_bytes() for name in written}
            folder = tmp_path / story
            (folder / "work").mkdir(parents=True)
            monkeypatch.setenv("CODEX_HOME", str(folder / "home/.codex"))
            assert store.agents.resume(rows[id], cwd=folder / "work").id == id
            answer = real_codex.resume(folder, {}, id)
            assert answer.sent is not None, answer.error
            texts = [item["content"][0]["text"] for item in answer.sent if item.get("role") in ("user", "assistant")]
            assert [text for text in texts if not text.startswith("<")] == [*SAID[story], real_codex.ASK]
            shutil.rmtree(folder)
