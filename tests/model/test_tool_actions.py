"""Tests of ``model.tool_actions`` and ``model.file_edits``: calls and results as people read them."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitsession import Message, ToolCall
from gitsession.model.file_edits import FileEdit, ReplacedText, compare, edits_in, edits_in_command, edits_in_text
from gitsession.model.tool_actions import action_of, outcome_of

PATCH = """*** Begin Patch
*** Add File: NOTES.md
+one
+two
*** Update File: app.py
*** Move to: main.py
@@ def run():
 kept
-old
+new
*** Delete File: README.md
*** End Patch
"""

ADDED = "*** Begin Patch\n*** Add File: a.py\n+one\n*** End Patch\n"


@pytest.mark.parametrize(
    ("name", "arguments", "title"),
    [
        ("bash", {"command": "pytest -q\n"}, "bash: pytest -q"),
        ("bash", {"command": "cd /w && make test"}, "bash: make test"),
        ("bash", {"command": "cd /w/sub && make"}, "bash: cd /w/sub && make"),
        ("Bash", {"command": "ls\npwd", "description": "List"}, "Bash: ls pwd"),
        ("shell", {"command": ["zsh", "-lc", "cat a b"], "workdir": "/x"}, "shell: cat a b"),
        ("shell", {"command": ["cat", "a b"]}, "shell: cat 'a b'"),
        ("shell", {"input": '{"command":["ls"]}'}, "shell: ls"),
        ("exec_command", {"cmd": "false"}, "exec_command: false"),
        ("Edit", {"file_path": "/w/auth.py", "old_string": "a\nb", "new_string": "a\nc\nd"}, "Edit auth.py +2 -1"),
        ("edit", {"path": "auth.py", "oldText": "same", "newText": "same"}, "edit auth.py +0 -0"),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": ""}, "edit a.py +0 -1"),
        (
            "MultiEdit",
            {
                "file_path": "a",
                "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "", "new_string": "z"}],
            },
            "MultiEdit a +2 -1",
        ),
        ("Write", {"file_path": "/w/sub/a.txt", "content": "1\n2\n"}, "Write sub/a.txt +2 -0"),
        ("write", {"path": "/elsewhere/a.txt", "content": ""}, "write /elsewhere/a.txt +0 -0"),
        ("apply_patch", {"input": PATCH}, "apply_patch NOTES.md +2 -0, app.py +1 -1, README.md +0 -0"),
        ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{ADDED}EOF\n"}, "exec_command a.py +1 -0"),
        ("shell", {"command": ["bash", "-lc", f"apply_patch << EOF\n{ADDED}EOF"]}, "shell a.py +1 -0"),
        ("shell", {"command": ["apply_patch", ADDED], "workdir": "/w/sub"}, "shell sub/a.py +1 -0"),
        ("exec_command", {"cmd": f"cd 'my sub' && applypatch <<\"E\"\n{ADDED}E"}, "exec_command my sub/a.py +1 -0"),
        ("exec_command", {"cmd": f"apply_patch <<E\n{ADDED}E\n\npytest -q\n"}, "exec_command a.py +1 -0; pytest -q"),
        ("read", {"path": "README.md"}, "read README.md"),
        ("read", {"path": "README.md", "offset": 20, "limit": 10}, "read README.md:20-29"),
        ("Read", {"file_path": "a", "limit": 20}, "Read a:1-20"),
        ("read", {"path": "a", "offset": 1603}, "read a:1603"),
        ("Grep", {"pattern": "TODO", "path": "/w/src"}, "Grep TODO in src"),
        ("webfetch", {"url": "https://example.com"}, "webfetch https://example.com"),
        ("Task", {"description": "Count files", "prompt": "..."}, "Task Count files"),
        ("KillBash", {"shell_id": "bash_3"}, "KillBash bash_3"),
        ("TodoWrite", {"todos": []}, "TodoWrite"),
        ("", {}, "tool"),
    ],
)
def test_the_title_of_a_call(name: str, arguments: dict[str, Any], title: str) -> None:
    assert action_of(ToolCall("c", name, arguments), folder="/w").title == title


def test_a_patch_names_every_file_and_its_lines() -> None:
    assert edits_in({"input": PATCH}) == (
        FileEdit("NOTES.md", ("+one", "+two"), "write", parts=(ReplacedText("", "one\ntwo"),)),
        FileEdit("app.py", (" kept", "-old", "+new"), "move", "main.py", (ReplacedText("kept\nold", "kept\nnew"),)),
        FileEdit("README.md", (), "delete"),
    )


def test_a_shell_command_can_begin_with_several_patches() -> None:
    second = "*** Begin Patch\n*** Update File: b.py\n*** Move to: /c.py\n@@\n-x\n+y\n*** End Patch\n"
    edits, rest = edits_in_command(f"cd sub && apply_patch <<'A'\n{ADDED}A\napply_patch <<B\n{second}B\nls\n")
    assert [(edit.path, edit.moved_to, edit.size) for edit in edits] == [
        ("sub/a.py", "", "+1 -0"), ("sub/b.py", "/c.py", "+1 -1"),
    ]  # fmt: skip
    assert rest == "ls"


NO_PATCHES = {
    "the here-document does not end": f"apply_patch <<'EOF'\n{ADDED}",
    "another word ends it": f"apply_patch <<'EOF'\n{ADDED}END\n",
    "the word is on a line with other text": f"apply_patch <<'EOF'\n{ADDED}EOF;\n",
    "the patch does not end": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: a.py\n+one\nEOF\n",
    "there is no patch": "apply_patch <<'EOF'\n+one\nEOF\n",
    "the patch has no files": "apply_patch <<'EOF'\n*** Begin Patch\n*** End Patch\nEOF\n",
    "another command gets the text": f"cat > it.sh <<'EOF'\napply_patch <<'X'\n{ADDED}X\nEOF\n",
    "it is printed": f"echo \"apply_patch <<'EOF'\n{ADDED}EOF\n\"",
    "the folder is computed": f"cd $(mktemp -d) && apply_patch <<'EOF'\n{ADDED}EOF\n",
    "it is a comment": f"# apply_patch <<'EOF'\n{ADDED}EOF\n",
}


@pytest.mark.parametrize("command", NO_PATCHES.values(), ids=NO_PATCHES)
def test_other_commands_with_the_text_of_a_patch_are_no_edits(command: str) -> None:
    assert edits_in_command(command) == ((), command)
    assert action_of(ToolCall("c", "exec_command", {"cmd": command})).verb == "run"


def test_many_patches_in_one_command_are_found_in_linear_time() -> None:
    edits, rest = edits_in_command(f"apply_patch <<E\n{ADDED}E\n" * 10_000)
    assert (len(edits), rest) == (10_000, "")
    assert edits_in_command("apply_patch <<E\n" * 100_000)[0] == ()


def test_an_edit_has_the_replaced_parts_in_order() -> None:
    edits = [{"old_string": "a", "new_string": "b", "replace_all": True}, {"old_string": "c", "new_string": ""}]
    [edit] = edits_in({"file_path": "x", "edits": edits})
    assert edit.parts == (ReplacedText("a", "b", everywhere=True), ReplacedText("c", ""))
    [written] = edits_in({"file_path": "x", "content": "1\n"})
    assert written.parts == (ReplacedText("", "1\n"),)


def test_search_and_replace_blocks_of_aider() -> None:
    block = "app.py\n```python\n<<<<<<< SEARCH\na\nb\n=======\na\nc\n>>>>>>> REPLACE\n```\n"
    assert edits_in_text(f"I'll do it.\n\n{block}\nDone.") == (
        FileEdit("app.py", (" a", "-b", "+c"), parts=(ReplacedText("a\nb", "a\nc"),)),
    )
    assert edits_in_text("<<<<<<< SEARCH\nnever closed\n" * 1000) == ()


_TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12).map("\n".join)


@given(_TEXTS, _TEXTS)
def test_a_comparison_contains_the_difference_of_the_texts(old: str, new: str) -> None:
    lines = compare(old, new)
    before, after = (text.removesuffix("\n").split("\n") if text else [] for text in (old, new))
    expected = [line for line in difflib.ndiff(before, after) if line[0] in "+-"]
    signs = [sum(line.startswith(sign) for line in lines) for sign in "+-"]
    assert signs[0] - signs[1] == len(after) - len(before)
    assert bool(lines) == bool(expected)


def test_long_texts_are_compared_by_their_ends() -> None:
    old = "\n".join(map(str, range(5000)))
    assert compare(old, old.replace("\n2500\n", "\nx\n")) == [
        " 2497", " 2498", " 2499", "-2500", "+x", " 2501", " 2502", " 2503",
    ]  # fmt: skip


_CODEX = "Chunk ID: 5e5b68\nWall time: 0.0000 seconds\nProcess exited with code {}\nOriginal token count: 3\nOutput:\n"


@pytest.mark.parametrize(
    ("text", "fields", "outcome"),
    [
        ("a\nb\n", {}, "2 lines"),
        ("", {}, "no output"),
        ("not found", {"is_error": True}, "error, 1 line"),
        ("out\n\nCommand exited with code 2", {"is_error": True}, "exit 2, 3 lines"),
        ("Exit code 127\nzip: not found", {"is_error": True}, "exit 127, 2 lines"),
        ("Exit code 127 is documented here", {}, "1 line"),
        (_CODEX.format(1) + "oops\n", {}, "exit 1, 1 line"),
        (_CODEX.format(0) + "a\nb\n", {}, "2 lines"),
        ('{"output":"done\\n","metadata":{"exit_code":3}}', {}, "exit 3, 1 line"),
        ("x", {"details": {"metadata": {"exit": 5}}}, "exit 5, 1 line"),
        ("apply_patch verification failed: Failed to find expected lines in a.py:\nx", {}, "error, 2 lines"),
        ("patch rejected by user", {}, "error, 1 line"),
        ("exec_command failed for `ls`: CreateProcess", {}, "error, 1 line"),
        ("a\napply_patch verification failed: x", {}, "2 lines"),
        (_CODEX.format(0) + "patch rejected: x", {}, "1 line"),
    ],
)
def test_the_outcome_of_a_result(text: str, fields: dict[str, Any], outcome: str) -> None:
    assert outcome_of(Message.tool(ToolCall("c", "bash"), text, **fields)).text == outcome


def test_the_outcome_of_a_shell_command() -> None:
    assert outcome_of(Message(role="shell", command="ls", output="a\n", exit_code=1)).text == "exit 1, 1 line"


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(
    ["workdir", "command", "cmd", "path", "edits", "input", "content", "old_string", "offset", "limit"]
)


@given(st.text(), st.dictionaries(_NAMES, _VALUES, max_size=4), st.text())
def test_any_call_and_any_result_is_one_line(name: str, arguments: dict[str, Any], text: str) -> None:
    assert "\n" not in action_of(ToolCall("c", name, arguments)).title
    assert "\n" not in outcome_of(Message.tool(ToolCall("c", name), text, details=arguments)).text
