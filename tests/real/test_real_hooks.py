"""Tests of the real agents with hooks from ``enable``: they edit files through the shell, and a rewind undoes that.

It requires ``$LAB`` with the agents. Each has its own home, folder and network (``unshare -n``), in which a scripted
model answers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import real_codex
import real_opencode
from real_claude import MODEL, PROGRAM, can_unshare

from gitsession import Store
from gitsession.live import spool

CHANGE = "printf two > a.txt; printf made > new.txt; mv kept.txt moved.txt"
BEFORE = {"a.txt": "one", "kept.txt": "kept"}
AFTER = {"a.txt": "two", "new.txt": "made", "moved.txt": "kept"}
SECONDS = 60

_RUN = """
ip link set lo up
python3 {model} --script ../script.json --log ../requests.jsonl --portfile ../port --max-seconds {seconds} > /dev/null &
model=$!
for i in $(seq 1200); do [ -s ../port ] && break; sleep 0.1; done
{start} < /dev/null
code=$?
kill $model
exit $code
"""

_CLAUDE = """ANTHROPIC_BASE_URL=http://127.0.0.1:$(cat ../port) timeout {seconds} {program} -p "{prompt}" \
    --output-format json --permission-mode acceptEdits --allowedTools "Bash Read Edit Write" {more}"""

_CODEX = """sed -e "s#@PORT@#$(cat ../port)#" -e "s#@WORK@#$PWD#" {template} > $CODEX_HOME/config.toml
timeout {seconds} {program} exec {more} --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox \
    --dangerously-bypass-hook-trust --json "{prompt}" """

NODE = Path(os.environ.get("LAB", "/nonexistent")) / "node22/node_modules/node/bin/node"
PI = NODE.parents[4] / "pi-087/node_modules/.bin/pi"

_PI = """sed "s#@PORT@#$(cat ../port)#" ../models.json > $HOME/.pi/agent/models.json
PI_OFFLINE=1 PATH={program.parent}:$PATH timeout {seconds} {program} {pi} -p "{prompt}" {more} \
    --provider mock --model mock-model"""
BUN = NODE.parents[4] / "bun2/node_modules/bun/bin/bun.exe"
OMP = NODE.parents[4] / "omp/node_modules/.bin/omp"

_OMP = """sed "s#@PORT@#$(cat ../port)#" ../models.json > $HOME/.omp/agent/models.yml
PI_OFFLINE=1 timeout {seconds} {program} {omp} -p "{prompt}" {more} --provider mock --model mock-model"""
MODELS = {"providers": {"mock": {
    "baseUrl": "http://127.0.0.1:@PORT@/v1", "api": "openai-completions", "apiKey": "none",
    "models": [{"id": "mock-model"}],
}}}  # fmt: skip

_OPENCODE = """sed -i "s#@PORT@#$(cat ../port)#" $HOME/.config/opencode/opencode.json
timeout {seconds} {program} run {more} "{prompt}" """
_FETCHED = {"packages": {"": {"dependencies": {"@opencode-ai/plugin": "*"}}}}
"""A package that opencode fetches and waits for if there are plugins. The plugin of gitsession does not need it."""
TITLE = {"needle": "You are a title generator", "step": {"text": "A title"}}

FORMS = {
    "claude": (_CLAUDE, PROGRAM), "codex": (_CODEX, real_codex.PROGRAM), "opencode": (_OPENCODE, real_opencode.PROGRAM),
    "pi": (_PI, NODE), "omp": (_OMP, BUN),
}  # fmt: skip
GO_ON = {**dict.fromkeys(FORMS, "--continue"), "codex": "resume --last"}


class Place:
    """A home directory with an agent whose hooks are enabled, and a folder to work in."""

    def __init__(self, folder: Path, agent: str) -> None:
        self.agent, self.folder, self.work, self.home = agent, folder, folder / "work", folder / "home"
        self.store = folder / "store.git"
        for place in (self.work, self.home / ".claude", self.home / ".codex", self.home / ".config/opencode"):
            place.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", self.work], check=True)
        self.fill(BEFORE)
        quiet = ["NONESSENTIAL_TRAFFIC", "TELEMETRY", "ERROR_REPORTING", "AUTOUPDATER", "BUG_COMMAND"]
        self.env = {
            "HOME": str(self.home), "PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "CLAUDE_CONFIG_DIR": str(self.home / ".claude"), "CODEX_HOME": str(self.home / ".codex"),
            "ANTHROPIC_API_KEY": "mock-not-a-key", "IS_SANDBOX": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **{f"DISABLE_{name}": "1" for name in quiet}, **real_opencode.OFF,
        }  # fmt: skip
        (self.home / ".config/opencode/node_modules").mkdir()
        (self.home / ".config/opencode/package-lock.json").write_text(json.dumps(_FETCHED))
        self.cli("enable", agent, "--yes")

    def cli(self, *words: str) -> str:
        command = [sys.executable, "-m", "gitsession", "--store", str(self.store), *words]
        done = subprocess.run(command, cwd=self.work, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def ask(self, prompt: str, *steps: dict[str, object], more: str = "") -> None:
        """Run one turn in which the model makes ``steps``."""
        (self.folder / "script.json").write_text(json.dumps({"rules": [TITLE], "steps": [*steps, {"text": "Done."}]}))
        (self.folder / "port").unlink(missing_ok=True)
        (self.folder / "models.json").write_text(json.dumps(MODELS))
        (self.home / ".config/opencode/opencode.json").write_text(json.dumps(real_opencode.CONFIG))
        form, program = FORMS[self.agent]
        template = real_codex.PEERS / "codex_config.toml.tmpl"
        given = {"prompt": prompt, "more": more, "template": template, "pi": PI, "omp": OMP}
        start = form.format(program=program, seconds=SECONDS, **given)
        script = _RUN.format(model=MODEL, seconds=SECONDS, start=start)
        command = ["unshare", "-n", "bash", "-c", script]
        done = subprocess.run(command, cwd=self.work, env=self.env, capture_output=True, timeout=2 * SECONDS)
        assert done.returncode == 0, done.stderr + done.stdout

    def shell(self, command: str) -> dict[str, object]:
        """Return a step in which the model runs a command."""
        if self.agent in ("claude", "opencode"):
            tool = "Bash" if self.agent == "claude" else "bash"
            return {"tool": tool, "args": {"command": command, "description": "run"}}
        if self.agent in ("omp", "pi"):
            return {"tool": "bash", "args": {"command": command}}
        return {"tool": "exec_command", "args": {"cmd": command}}

    def fill(self, files: dict[str, str]) -> None:
        for name, content in files.items():
            (self.work / name).write_text(content)

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.work.iterdir() if path.is_file()}

    def line(self) -> list[tuple[str, str]]:
        """Return the role and text of the entries of the active branch."""
        with Store.open(self.store) as store:
            session = store.session(store.sessions()[0].sid)
            history = session.history()
            return [(node.role, node.subject) for node in history if node.role in ("user", "assistant", "tool")]


@pytest.fixture(params=FORMS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    programs = [FORMS[request.param][1], *{"pi": [PI], "omp": [OMP]}.get(request.param, [])]
    if not (all(program.exists() for program in programs) and MODEL.exists() and can_unshare()):
        pytest.skip("the real program is not at hand")
    return Place(tmp_path, request.param)


def entry(place: Place, words: str) -> str:
    place.cli("drain")
    with Store.open(place.store) as store:
        session = store.session(store.sessions()[0].sid)
        return next(node.oid for node in reversed(session.history()) if words in node.subject)


def test_files_and_conversation_are_back(place: Place) -> None:
    place.ask("Change the files", place.shell(CHANGE))
    assert place.files() == AFTER
    place.fill({"mine.txt": "the user's"})
    said = entry(place, "Change the files")
    assert spool.waiting(str(place.store)) == []
    assert spool.failures(str(place.store)) == []
    whole = place.line()
    told = place.cli("rewind", f"@@{said}", "--workspace", str(place.work))
    assert place.files() == {**BEFORE, "mine.txt": "the user's"}
    assert "Change the files" in told
    assert not [words for role, words in place.line() if "Change the files" in words]
    place.cli("undo", "--workspace", str(place.work))
    assert place.files() == {**AFTER, "mine.txt": "the user's"}
    assert place.line() == whole


def test_second_turn_is_rewound_and_the_first_one_is_kept(place: Place) -> None:
    place.ask("Change the files", place.shell(CHANGE))
    once_more = (place.shell("printf three > a.txt"), place.shell("rm new.txt"))
    place.ask("And once more", *once_more, more=GO_ON[place.agent])
    assert place.files() == {"a.txt": "three", "moved.txt": "kept"}
    place.cli("rewind", f"@@{entry(place, 'And once more')}", "--workspace", str(place.work))
    assert place.files() == AFTER
    assert any("Change the files" in words for _, words in place.line())


def test_agent_continues_without_a_store_or_disk_space(place: Place) -> None:
    shutil.rmtree(place.store)
    place.store.write_text("in the way")
    place.ask("Change the files", place.shell(CHANGE))
    assert place.files() == AFTER


def test_agent_that_patches_through_the_shell_is_rewound_without_an_end_event(place: Place) -> None:
    if place.agent != "codex":
        pytest.skip("codex is the one that does so")
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: patched.txt\n+new\n*** End Patch\nEOF\n"
    place.ask("Patch it", place.shell(patch))
    assert "patched.txt" in place.files()
    place.cli("rewind", f"@@{entry(place, 'Patch it')}", "--workspace", str(place.work))
    assert place.files() == BEFORE
