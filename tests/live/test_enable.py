"""Tests of changed settings files of agents: few changes, shown before, and undone byte for byte."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession.errors import Refused
from gitsession.live import agent_hooks, settings_edits, spool, spooled_events
from gitsession.live.agent_hooks import AGENTS, HookSettings

PROGRAM = ["/opt/with space/bin/gitsession", "--store", "/home/u/it's/store.git"]
CLAUDE = AGENTS["claude"]
STORE = Path("/nonexistent/store.git")


def enable(folder: Path, text: str | None, agent: str = "claude") -> tuple[Path, settings_edits.Edit]:
    """Enable the hooks in a settings file with ``text``."""
    file = folder / AGENTS[agent].name
    file.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        file.write_text(text)
    edit = settings_edits.plan_enable(folder / "store.git", AGENTS[agent], file, PROGRAM)
    settings_edits.perform(folder / "store.git", edit, enable=True)
    return file, edit


def disable(folder: Path, agent: str = "claude") -> None:
    file = folder / AGENTS[agent].name
    edit = settings_edits.plan_disable(folder / "store.git", AGENTS[agent], file)
    settings_edits.perform(folder / "store.git", edit, enable=False)


OTHERS = '{"hooks": [{"type": "command", "command": "say done"}]}'
TEXTS = {
    "no file": None,
    "an empty file": "",
    "an empty object": "{}",
    "an empty object on two lines": "{\n}\n",
    "other settings": '{\n  "model": "opus",\n  "env": {"A": "1"}\n}\n',
    "tabs": '{\n\t"model": "opus",\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t' + OTHERS + "\n\t\t]\n\t}\n}\n",
    "one line": '{"model":"opus","hooks":{"Stop":[' + OTHERS + "]}}",
    "hooks of others": '{\n    "hooks": {\n        "PreToolUse": [' + OTHERS + '],\n        "Stop": []\n    }\n}',
    "empty hooks": '{ "hooks": { } , "z": 1}',
    "windows line ends": '{\r\n  "model": "opus"\r\n}\r\n',
    "odd words": '{"a": "\\u00e9 }]{[ \\"", "b": [1, 2.5e3, null, true, [], {}]}',
    "two of one name": '{"hooks": {"Stop": []}, "hooks": {"Stop": [' + OTHERS + "]}}",
}


@pytest.mark.parametrize("agent", ["claude", "codex"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_disable_restores_the_file_byte_for_byte(tmp_path: Path, text: str | None, agent: str) -> None:
    file, edit = enable(tmp_path, text, agent)
    found = json.loads(file.read_text())
    told = AGENTS[agent]
    assert isinstance(told, HookSettings)
    for event in told.events:
        commands = [hook["command"] for group in found["hooks"][event] for hook in group["hooks"]]
        assert commands.count(agent_hooks.command(agent, event, PROGRAM)) == 1
    assert settings_edits.plan_enable(STORE, told, file, PROGRAM).is_empty, "a second time there is nothing to do"
    disable(tmp_path, agent)
    assert (file.read_bytes() if file.exists() else None) == edit.old


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_disable_keeps_later_changes_by_others(tmp_path: Path, text: str | None) -> None:
    file, _ = enable(tmp_path, text)
    before = json.loads(text) if text else {}
    found = json.loads(file.read_text())
    found["by the user"] = [1]
    found["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "gitsession hook Stop"}]})
    file.write_text(json.dumps(found, indent=1))
    disable(tmp_path)
    after = json.loads(file.read_text())
    assert after.pop("by the user") == [1]
    assert after["hooks"]["Stop"][0]["hooks"][0]["command"] == "gitsession hook Stop"
    assert "--from claude" not in file.read_text()
    for key in before.keys() - {"hooks"}:
        assert after[key] == before[key]
    for event, groups in before.get("hooks", {}).items():
        assert [group for group in after["hooks"].get(event, []) if group in groups] == groups


def test_moved_program_is_updated_without_duplicates(tmp_path: Path) -> None:
    file, edit = enable(tmp_path, TEXTS["hooks of others"])
    again = settings_edits.plan_enable(STORE, CLAUDE, file, ["/elsewhere/gitsession"])
    settings_edits.perform(tmp_path / "store.git", again, enable=True)
    assert "with space" not in file.read_text()
    assert file.read_text().count("--from claude") == len(CLAUDE.events)
    disable(tmp_path)
    assert file.read_bytes() == edit.old


# ---- the status line

LINE = {"type": "command", "command": agent_hooks.status_line_command(PROGRAM)}


def planned(file: Path, status_line: bool | None = None) -> settings_edits.Edit:
    return settings_edits.plan_enable(STORE, CLAUDE, file, PROGRAM, status_line=status_line)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_status_line_is_set_in_claude_code_and_removed_after_other_edits(tmp_path: Path, text: str | None) -> None:
    file, edit = enable(tmp_path, text)
    assert json.loads(file.read_text())["statusLine"] == LINE
    assert not edit.keeps_status_line
    file.write_text(file.read_text().replace("{", '{"by the user": 1,', 1))
    disable(tmp_path)
    after = json.loads(file.read_text())
    assert after.pop("by the user") == 1
    assert {**after, "hooks": None} == {**json.loads(text or "{}"), "hooks": None}


def test_status_line_has_the_new_path_of_the_program(tmp_path: Path) -> None:
    file, _ = enable(tmp_path, '{"model": "opus"}')
    program = ["/elsewhere/gitsession"]
    again = settings_edits.plan_enable(tmp_path / "store.git", CLAUDE, file, program)
    settings_edits.perform(tmp_path / "store.git", again, enable=True)
    found = json.loads(file.read_text())
    assert found["statusLine"]["command"] == agent_hooks.status_line_command(program)
    assert set(found) == {"model", "hooks", "statusLine"}
    disable(tmp_path)
    assert file.read_text() == '{"model": "opus"}'


FOREIGN = ('{"type": "command", "command": "~/line.sh"}', '{"command": "gitsession status-line"}', "null", '"x"', "[]")


@pytest.mark.parametrize("value", FOREIGN)
def test_status_line_of_the_user_is_kept(tmp_path: Path, value: str) -> None:
    text = f'{{"statusLine": {value}, "model": "opus"}}'
    file, edit = enable(tmp_path, text)
    assert edit.keeps_status_line
    assert json.loads(file.read_text())["statusLine"] == json.loads(value)
    with pytest.raises(Refused, match="there is another one"):
        planned(file, status_line=True)
    file.write_text(file.read_text() + "\n")
    disable(tmp_path)
    assert json.loads(file.read_text()) == json.loads(text)


def test_status_line_can_be_left_out_and_removed(tmp_path: Path) -> None:
    file, _ = enable(tmp_path, None)
    assert planned(file).is_empty
    assert planned(file, status_line=True).is_empty
    edit = planned(file, status_line=False)
    assert set(json.loads(edit.new or b"")) == {"hooks"}
    for agent in ("codex", "pi"):
        with pytest.raises(Refused, match=f"{agent} runs no command"):
            settings_edits.plan_enable(STORE, AGENTS[agent], tmp_path / "none", PROGRAM, status_line=True)


def test_status_line_command_prints_the_line_of_a_session(tmp_path: Path) -> None:
    cli("enable", "claude", "--yes")
    settings = json.loads((Path.home() / ".claude/settings.json").read_text())
    command = ["sh", "-c", settings["statusLine"]["command"]]
    given = '{"session_id": "x", "model": {"display_name": "Opus"}}'
    done = subprocess.run(command, input=given, cwd="/", capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("Opus · no stored session\n", "")


def test_enable_reports_that_another_status_line_is_kept() -> None:
    settings = Path.home() / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    assert "another status line is set there" in cli("enable", "claude", "--yes").stdout
    assert cli("enable", "claude", "--status-line", "--yes").returncode == 4
    cli("disable", "claude", "--yes")
    assert settings.read_text() == '{"statusLine": {"type": "command", "command": "mine"}}'


def test_timeout_for_codex_is_within_its_limit(tmp_path: Path) -> None:
    file, _ = enable(tmp_path, None, "codex")

    def timeouts() -> dict[str, int]:
        found = json.loads(file.read_text())["hooks"]
        return {event: hook["timeout"] for event, groups in found.items() for hook in groups[0]["hooks"]}

    assert timeouts() == {event: 3 if event == "SessionEnd" else agent_hooks.SECONDS for event in timeouts()}
    assert "SessionEnd" in timeouts()
    file.write_text(file.read_text().replace('"timeout": 3\n', '"timeout": 30\n'))
    edit = settings_edits.plan_enable(STORE, AGENTS["codex"], file, PROGRAM)
    assert edit.new is not None
    assert json.loads(edit.new)["hooks"]["SessionEnd"][0]["hooks"][0]["timeout"] == 3, "an older file is corrected"


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode", "pi"])
def test_disabled_it_tells_no_other_store_either(tmp_path: Path, agent: str) -> None:
    file, _ = enable(tmp_path, None, agent)
    other = tmp_path / "other.git"
    edit = settings_edits.plan_enable(other, AGENTS[agent], file, ["/opt/gitsession", "--store", str(other)])
    settings_edits.perform(other, edit, enable=True)
    settings_edits.perform(other, settings_edits.plan_disable(other, AGENTS[agent], file), enable=False)
    assert not settings_edits.is_enabled(AGENTS[agent], file)


REFUSED = {
    "no JSON": ('{"a": 1,}', "line 1"),
    "comments": ('{\n// said\n"a": 1}', "line 2"),
    "a list": ("[]", "not a JSON object"),
    "hooks in a list": ('{"hooks": []}', "hooks"),
    "an event that is none": ('{"hooks": {"Stop": {}}}', "Stop"),
    "nested too deep": ("[" * 100_000, "invalid JSON"),
}


@pytest.mark.parametrize(("text", "says"), REFUSED.values(), ids=REFUSED)
def test_settings_that_cannot_be_read_are_left_alone_and_the_place_is_named(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(Refused, match=says):
        enable(tmp_path, text)
    assert (tmp_path / "settings.json").read_text() == text


def test_unreadable_settings_are_rejected_with_the_line_and_a_hint() -> None:
    settings = Path.home() / ".claude/settings.json"
    settings.parent.mkdir()
    settings.write_text('{\n  "model": "opus",\n}\n')
    for verb in ("enable", "disable"):
        done = cli(verb, "claude", "--yes")
        assert done.returncode == 4
        assert f"cannot change '{settings}': invalid JSON" in done.stderr
        assert "line 3" in done.stderr
        assert "correct the file and run the command again" in done.stderr
    assert settings.read_text() == '{\n  "model": "opus",\n}\n'


def test_settings_that_are_not_utf_8_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(Refused, match="not UTF-8 at byte 7"):
        settings_edits.plan_enable(STORE, CLAUDE, tmp_path / "settings.json", PROGRAM)


def test_link_stays_a_link_and_its_target_keeps_its_mode(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_text("{}")
    real.chmod(0o640)
    (tmp_path / "settings.json").symlink_to(real)
    enable(tmp_path, None)
    assert (tmp_path / "settings.json").is_symlink()
    assert "--from claude" in real.read_text()
    assert real.stat().st_mode & 0o777 == 0o640
    disable(tmp_path)
    assert real.read_text() == "{}"


def test_file_saved_by_the_agent_during_the_write_is_kept(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{}")
    edit = settings_edits.plan_enable(STORE, CLAUDE, file, PROGRAM)
    write_new = settings_edits.write_new

    def slow(path: Path, data: bytes, **how: Any) -> None:
        write_new(path, data, **how)
        file.write_text('{"new": 1}')

    monkeypatch.setattr(settings_edits, "write_new", slow)
    with pytest.raises(Refused, match="another program has changed it"):
        settings_edits.perform(tmp_path / "store.git", edit, enable=True)
    assert file.read_text() == '{"new": 1}'
    assert not list(tmp_path.glob(".settings.json.*"))


def test_change_between_the_question_and_the_answer_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text("{}")
    edit = settings_edits.plan_enable(STORE, CLAUDE, file, PROGRAM)
    file.write_text('{"new": 1}')
    with pytest.raises(Refused, match="another program has changed it"):
        settings_edits.perform(tmp_path / "store.git", edit, enable=True)
    assert file.read_text() == '{"new": 1}'


@pytest.mark.parametrize("agent", ["omp", "opencode", "pi"])
def test_agent_that_loads_files_gets_a_file_that_disable_removes(tmp_path: Path, agent: str) -> None:
    file, _ = enable(tmp_path, None, agent)
    assert json.dumps(PROGRAM) in file.read_text()
    assert "@" not in file.read_text().replace("// @", "").replace("a@b", "")
    disable(tmp_path, agent)
    assert not file.exists()


def test_foreign_file_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="gitsession did not create it"):
        enable(tmp_path, "export default 1", "pi")


@pytest.mark.parametrize("agent", ["omp", "opencode", "pi"])
@pytest.mark.parametrize("change", [lambda text: text + "// mine\n", lambda text: text.replace("30000", "5000")])
def test_changed_own_file_is_only_removed_by_force_with_a_copy(
    tmp_path: Path, agent: str, change: Callable[[str], str]
) -> None:
    file, _ = enable(tmp_path, None, agent)
    theirs = change(file.read_text())
    file.write_text(theirs)
    for act in (lambda: disable(tmp_path, agent), lambda: enable(tmp_path, None, agent)):
        with pytest.raises(Refused, match="it was edited after") as caught:
            act()
        assert "--force" in caught.value.hint
        assert file.read_text() == theirs
    edit = settings_edits.plan_disable(tmp_path / "store.git", AGENTS[agent], file, force=True)
    settings_edits.perform(tmp_path / "store.git", edit, enable=False)
    assert not file.exists()
    assert settings_edits.copy_of(tmp_path / "store.git", edit).read_text() == theirs


@pytest.mark.parametrize("agent", ["omp", "opencode", "pi"])
def test_own_file_is_recognized_without_a_record(tmp_path: Path, agent: str) -> None:
    file, _ = enable(tmp_path, None, agent)
    shutil.rmtree(tmp_path / "store.git")
    again = settings_edits.plan_enable(tmp_path / "store.git", AGENTS[agent], file, ["/elsewhere/gitsession"])
    assert (again.is_empty, again.keeps) == (False, False)
    disable(tmp_path, agent)
    assert not file.exists()


def test_forced_disable_prints_the_location_of_the_copy(tmp_path: Path) -> None:
    cli("enable", "pi", "--yes")
    file = Path.home() / ".pi/agent/extensions/gitsession.js"
    file.write_text(file.read_text() + "// mine\n")
    done = cli("disable", "pi", "--yes")
    assert (done.returncode, file.exists()) == (4, True)
    copy = Path(json.loads(cli("disable", "pi", "--yes", "--force", "--json").stdout)["copy"])
    assert copy.read_text().endswith("// mine\n")
    assert not file.exists()


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read it")
@pytest.mark.parametrize("agent", ["omp", "opencode", "pi"])
def test_plugins_are_valid_for_node(tmp_path: Path, agent: str) -> None:
    file, _ = enable(tmp_path, None, agent)
    shutil.copy(file, tmp_path / "it.mjs")
    subprocess.run(["node", "--check", str(tmp_path / "it.mjs")], check=True, capture_output=True)


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to run it")
def test_events_of_the_opencode_plugin_reach_the_spool(tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    program = [sys.executable, "-P", "-m", "gitsession", "--store", str(store)]
    told = AGENTS["opencode"]
    assert not isinstance(told, HookSettings)
    (tmp_path / "it.mjs").write_text(agent_hooks.text_of(told, program))
    (tmp_path / "work").mkdir()
    (tmp_path / "run.mjs").write_text("""
        import { gitsession } from "./it.mjs";
        const hooks = await gitsession({ directory: process.argv[2] });
        const session = { sessionID: "ses_1" };
        await hooks["chat.message"](session, { parts: [{ type: "text", text: "do it" }] });
        const call = { tool: "bash", callID: "call_1", ...session };
        await hooks["tool.execute.before"](call, { args: { command: "rm x" } });
        await hooks["tool.execute.after"]({ ...call, args: { command: "rm x" } }, { output: "" });
        await hooks.event({ event: { type: "message.updated", properties: {} } });
    """)
    command = ["node", str(tmp_path / "run.mjs"), str(tmp_path / "work")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found = [spooled_events.read(store, name) for name in spool.waiting(str(store))]
    assert [(event.name, event.session, event.prompt, event.call, event.reason) for event in found if event] == [
        ("UserPromptSubmit", "ses_1", "do it", None, None),
        ("PreToolUse", "ses_1", "", "call_1", "bash: rm x"),
        ("PostToolUse", "ses_1", "", "call_1", "bash: rm x"),
    ]
    assert all(event and event.snapshot for event in found)


def test_command_runs_in_any_folder_and_is_silent_without_the_program(tmp_path: Path) -> None:
    place = tmp_path / "a 'quoted' place"
    place.mkdir()
    program = place / "gitsession"
    program.write_text('#!/bin/sh\necho "$@" > "$(dirname "$0")/said"\n')
    program.chmod(0o755)
    command = agent_hooks.command("claude", "Stop", [str(program), "--store", "/s t"])
    assert subprocess.run(["sh", "-c", command], cwd="/", check=False).returncode == 0
    assert (place / "said").read_text() == "--store /s t hook Stop --from claude\n"
    program.unlink()
    done = subprocess.run(["sh", "-c", command], cwd="/", capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def cli(*words: str, input: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gitsession", *words]
    return subprocess.run(command, input=input, capture_output=True, text=True, check=False)


def test_enable_shows_the_change_and_requires_a_confirmation() -> None:
    settings = Path.home() / ".claude/settings.json"
    done = cli("enable", "claude", input="n\n")
    assert done.returncode == 1
    assert re.search(r"settings.json: \d+ lines added, 0 removed; --dry-run shows them", done.stdout)
    assert len(done.stdout.splitlines()) == 1
    assert not settings.exists()
    done = cli("enable", "claude", "--dry-run")
    assert done.returncode == 0
    assert '"PreToolUse"' in done.stdout
    assert not settings.exists()
    assert cli("enable", "claude", input="y\n").returncode == 0
    assert settings.exists()
    assert "claude hooks are installed" in cli("doctor").stdout
    assert cli("disable", "claude", "--yes", "--json").returncode == 0
    assert not settings.exists()


def test_enable_without_a_terminal_writes_nothing_and_names_yes() -> None:
    done = cli("enable", "claude", input="")
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert not (Path.home() / ".claude/settings.json").exists()


def test_repeated_enable_and_disable_report_the_current_state() -> None:
    assert "claude: hooks are not installed" in cli("disable", "claude", "--yes").stdout
    cli("enable", "claude", "--yes")
    assert "hooks are already installed" in cli("enable", "claude", "--yes").stdout
    assert cli("disable", "claude", "--yes").stdout.endswith("settings.json is removed\n"), "it was not there before"


def test_agents_without_hooks_are_referred_to_watch() -> None:
    done = cli("enable", "aider", "--yes")
    assert done.returncode == 3
    assert "gitsession watch" in done.stderr
    assert "choose one of claude" in cli("enable", "nobody").stderr


def test_agents_variables_set_the_location_of_the_settings(tmp_path: Path) -> None:
    home = Path("/home/u")
    assert agent_hooks.file_of(CLAUDE, home, {}) == Path("/home/u/.claude/settings.json")
    assert agent_hooks.file_of(CLAUDE, home, {"CLAUDE_CONFIG_DIR": "/c"}) == Path("/c/settings.json")
    there = agent_hooks.file_of(AGENTS["opencode"], home, {"XDG_CONFIG_HOME": "/x"})
    assert there == Path("/x/opencode/plugin/gitsession.js")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(), VALUES, max_size=4),
    st.sampled_from([None, 0, 2, 3, "\t"]),
    st.text(min_size=1),
    VALUES,
)
def test_inserted_text_can_be_removed_again(whole: dict[str, Any], indent: Any, key: str, value: Any) -> None:
    whole.pop(key, None)
    text = json.dumps(whole, indent=indent)
    more = settings_edits.insert(text, settings_edits.parse(text, "x"), value, key=key)
    assert json.loads(more) == {**whole, key: value}
    part = settings_edits.parse(more, "x")
    found = part.get(key)
    assert found is not None
    assert settings_edits.remove(more, part, found) == text
