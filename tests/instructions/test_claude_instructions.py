"""Tests of the rules of Claude Code (docs/reference/instructions.md). Each test names its rule."""

from __future__ import annotations

import json
import subprocess

import pytest
from instruction_files import Folders

from gitsession.instructions.markdown_text import blank_code, without_comments


def test_claude_1_to_4_the_order_of_the_hierarchy(folders: Folders) -> None:
    folders.write(
        {
            "system/etc/claude-code/CLAUDE.md": "managed",
            "system/etc/claude-code/managed-settings.json": '{"claudeMd": "settings"}',
            "system/etc/claude-code/.claude/rules/m.md": "managed rule",
            "home/.claude/CLAUDE.md": "user",
            "home/.claude/rules/deep/u.md": "user rule",
            "CLAUDE.md": "above",
            "repo/CLAUDE.md": "project",
            "repo/.claude/CLAUDE.md": "hidden project",
            "repo/.claude/rules/p.md": "project rule",
            "repo/CLAUDE.local.md": "local",
            "repo/app/CLAUDE.md": "app",
        }
    )
    assert folders.texts("claude", "repo/app") == [
        "managed", "settings", "managed rule", "user", "user rule", "above", "project", "hidden project",
        "project rule", "local", "app",
    ]  # fmt: skip


def test_claude_3_the_folder_of_the_user_can_be_moved(folders: Folders) -> None:
    folders.write({"home/.claude/CLAUDE.md": "unused", "moved/CLAUDE.md": "moved"})
    found = folders.load("claude", environment={"CLAUDE_CONFIG_DIR": str(folders.base / "moved")})
    assert [file.content for file in found.files] == ["moved"]


def test_claude_5_rules_with_paths_are_in_force_once_a_path_matches(folders: Folders) -> None:
    folders.write(
        {
            "repo/.claude/rules/ts.md": '---\npaths:\n  - "src/**/*.{ts,tsx}"\n---\nscripts',
            "repo/.claude/rules/any.md": "---\npaths: **/*.rs, docs/**\n---\nunquoted",
            "repo/.claude/rules/all.md": '---\npaths: "**"\n---\nevery path',
            "home/.claude/rules/user.md": '---\npaths: "*.ts"\n---\nof the user',
        }
    )
    assert folders.texts("claude") == ["every path"]
    assert folders.texts("claude", touched=["src/deep/a.tsx"]) == ["every path", "scripts"]
    assert folders.texts("claude", touched=["src/a.ts"]) == ["every path", "of the user", "scripts"]
    assert folders.texts("claude", touched=["docs/guide/a.md"]) == ["every path", "unquoted"]
    assert folders.texts("claude", touched=["lib/a.py"]) == ["every path"]


def test_claude_6_files_of_folders_below_wait_for_a_path_in_them(folders: Folders) -> None:
    folders.write(
        {
            "repo/CLAUDE.md": "project",
            "repo/app/CLAUDE.md": "app",
            "repo/app/.claude/rules/r.md": "app rule",
            "repo/app/deep/CLAUDE.md": "deep",
            "repo/node_modules/x/CLAUDE.md": "never",
        }
    )
    assert folders.texts("claude") == ["project"]
    assert folders.texts("claude", touched=["app/a.py"]) == ["project", "app", "app rule"]
    assert folders.texts("claude", touched=[f"{folders.repo}/app/deep/a.py"]) == [
        "project", "app", "app rule", "deep",
    ]  # fmt: skip
    assert folders.texts("claude", touched=["other/a.py"]) == ["project"]
    searched = folders.load("claude", nested=True)
    assert [file.content for file in searched.files] == ["project", "app", "app rule", "deep"]


IMPORTS = {
    "at the start": ("@docs/a.md", True),
    "after a space": ("read @docs/a.md", True),
    "with a fragment": ("@docs/a.md#part", True),
    "in a list": ("- @docs/a.md", True),
    "in a code span": ("`@docs/a.md`", False),
    "in a span of two lines": ("`x\n@docs/a.md`", False),
    "after an open backtick": ("a ` b @docs/a.md", True),
    "in a fence": ("```\n@docs/a.md\n```", False),
    "in a fence with tildes": ("~~~~ md\n@docs/a.md\n~~~\n~~~~", False),
    "after a fence": ("```\nx\n```\n@docs/a.md", True),
    "indented": ("text\n\n    @docs/a.md", False),
    "an address": ("me@docs/a.md", False),
}


@pytest.mark.parametrize(("text", "is_import"), IMPORTS.values(), ids=IMPORTS)
def test_claude_7_imports_are_found_outside_of_code(folders: Folders, text: str, is_import: bool) -> None:
    folders.write({"repo/CLAUDE.md": text, "repo/docs/a.md": "imported"})
    found = folders.load("claude").files
    assert [file.content for file in found[1:]] == ["imported"] * is_import
    assert all(file.imported_by == f"{folders.repo}/CLAUDE.md" for file in found[1:])


def test_claude_7_imports_are_relative_to_their_file_or_to_the_home_directory(folders: Folders) -> None:
    folders.write(
        {
            "home/.claude/CLAUDE.md": "user @~/own.md",
            "home/own.md": "own",
            "repo/CLAUDE.md": "project @docs/a.md",
            "repo/docs/a.md": "a @b.md",
            "repo/docs/b.md": "b",
            "repo/b.md": "wrong",
        }
    )
    assert [text.split()[0] for text in folders.texts("claude")] == ["user", "own", "project", "a", "b"]


MISSING = {
    "a full stop after the name": ("See @gone.md.", "repo/gone.md.", 1),
    "a nested list": ("- a\n    - @gone.md", "repo/gone.md", 2),
    "a file": ("text\n\nSee @docs/gone.md\n", "repo/docs/gone.md", 3),
    "a file in the home directory": ("@~/gone", "home/gone", 1),
    "a file above": ("\n@../gone.txt", "gone.txt", 2),
    "a file after front matter and a comment": ("---\na: b\n---\n<!-- note -->\n`@b.md`\n@b.md", "repo/b.md", 6),
}


@pytest.mark.parametrize(("text", "path", "line"), MISSING.values(), ids=MISSING)
def test_claude_7_a_missing_import_is_listed_with_its_line(folders: Folders, text: str, path: str, line: int) -> None:
    folders.write({"repo/CLAUDE.md": text})
    found = folders.load("claude")
    assert len(found.files) == 1
    assert folders.problems(found) == {path: f"does not exist, but line {line} of CLAUDE.md imports it"}


def test_claude_7_names_that_look_like_no_file_are_not_listed(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "@alice @types/node @param x @README `@docs/gone.md` @v1.2"})
    assert folders.problems(folders.load("claude")) == {}


def test_claude_8_a_chain_of_imports_has_five_files(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "0 @1.md"})
    folders.write({f"repo/{n}.md": f"{n} @{n + 1}.md" for n in range(1, 9)})
    found = folders.load("claude")
    assert [file.content[0] for file in found.files] == ["0", "1", "2", "3", "4"]
    assert folders.problems(found) == {"repo/5.md": "imported at a depth of more than 4 imports"}


def test_claude_9_imports_from_outside_need_the_users_approval(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "project @../secret.md @~/missing.md", "secret.md": "secret"})
    found = folders.load("claude")
    assert [file.content for file in found.files] == ["project @../secret.md @~/missing.md"]
    reason = "an import from outside of the working directory that the user did not approve"
    missing = "does not exist, but line 1 of CLAUDE.md imports it"
    assert folders.problems(found) == {"secret.md": reason, "home/missing.md": missing}
    projects = {str(folders.repo): {"hasClaudeMdExternalIncludesApproved": True}}
    folders.write({"home/.claude.json": json.dumps({"projects": projects})})
    assert folders.texts("claude")[1:] == ["secret"]


def test_claude_10_only_text_is_imported(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "@a.png @Makefile @app.PY", "repo/a.png": "x", "repo/Makefile": "all:"})
    folders.write({"repo/app.PY": "pass"})
    found = folders.load("claude")
    assert [file.content for file in found.files[1:]] == ["all:", "pass"]
    assert folders.problems(found) == {"repo/a.png": "an import of a file that is not text"}


COMMENTS = {
    "a block": ("a\n<!-- gone -->\n\nb", "a\nb"),
    "several lines": ("a\n<!--\ngone\n-->\nb", "a\nb"),
    "in a line": ("a <!-- kept --> b", "a <!-- kept --> b"),
    "in a fence": ("```\n<!-- kept -->\n```", "```\n<!-- kept -->\n```"),
    "without an end": ("<!-- kept\nb", "<!-- kept\nb"),
    "with text after it": ("<!-- gone --> kept\nb", " kept\nb"),
    "in an HTML block": ("<div>\n<!-- kept -->\n</div>", "<div>\n<!-- kept -->\n</div>"),
}


@pytest.mark.parametrize(("text", "sent"), COMMENTS.values(), ids=COMMENTS)
def test_claude_11_comments_of_their_own_are_removed(text: str, sent: str) -> None:
    assert without_comments(text) == sent


def test_blank_code_keeps_each_position() -> None:
    text = "a `b` c\n```\nd\n```\n`` e ` f `` g ` h\n\ni ` j"
    blanked = blank_code(text)
    assert len(blanked) == len(text)
    assert blanked.split() == ["a", "c", "g", "`", "h", "i", "`", "j"]


def test_claude_12_memory_has_200_lines_and_25000_characters(folders: Folders) -> None:
    name = str(folders.repo).replace("/", "-").replace("_", "-").replace(".", "-")
    memory = f"home/.claude/projects/{name}/memory/MEMORY.md"
    folders.write({memory: "".join(f"- line {n}\n" for n in range(300))})
    [file] = folders.load("claude", "repo/deep/folder").files
    assert (file.scope, file.is_truncated, file.content.count("\n")) == ("memory", True, 199)
    folders.write({memory: "x" * 24_000 + "\n" + "y" * 2_000})
    [file] = folders.load("claude").files
    assert (file.is_truncated, file.content) == (True, "x" * 24_000)
    folders.write({memory: "short\n"})
    [file] = folders.load("claude").files
    assert (file.is_truncated, file.content) == (False, "short")
    assert folders.load("claude", environment={"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}).files == ()


def test_claude_13_settings_exclude_files(folders: Folders) -> None:
    folders.write({"CLAUDE.md": "above", "repo/CLAUDE.md": "project", "repo/.claude/rules/a.md": "rule"})
    folders.write({"repo/.claude/settings.local.json": json.dumps({"claudeMdExcludes": ["**/rules/*.md"]})})
    folders.write({"home/.claude/settings.json": json.dumps({"claudeMdExcludes": [f"{folders.base}/CLAUDE.md"]})})
    assert folders.texts("claude") == ["project"]
    assert folders.load("claude", environment={"CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1"}).files == ()


def test_claude_13_a_project_cannot_move_the_memory(folders: Folders) -> None:
    folders.write({"repo/.claude/settings.json": json.dumps({"autoMemoryDirectory": "~/.ssh"})})
    folders.write({"home/.ssh/MEMORY.md": "secret"})
    assert folders.texts("claude") == []


def test_claude_14_a_work_tree_inside_of_the_main_one_has_its_own_files(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "main", "repo/CLAUDE.local.md": "local"})
    for words in (["add", "CLAUDE.md"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        subprocess.run(["git", *words], cwd=folders.repo, check=True)
    subprocess.run(["git", "worktree", "add", "-q", "trees/one"], cwd=folders.repo, check=True, capture_output=True)
    folders.write({"repo/trees/one/CLAUDE.md": "tree"})
    assert folders.texts("claude", "repo/trees/one") == ["local", "tree"]


def test_claude_15_skills(folders: Folders) -> None:
    folders.write(
        {
            "home/.claude/skills/u/SKILL.md": "---\ndescription: of the user\n---\n",
            "repo/.claude/skills/a/SKILL.md": "---\nname: other\ndescription: of the project\n---\nbody\n",
            "repo/.claude/skills/u/SKILL.md": "---\ndescription: hidden by the user's\n---\n",
            "repo/.claude/skills/p/SKILL.md": '---\ndescription: for tests\npaths: "*_test.py"\n---\n',
            "repo/.claude/skills/q/SKILL.md": "# First line\nmore",
            "repo/app/.claude/skills/n/SKILL.md": "---\ndescription: nested\n---\n",
            "repo/.claude/skills/h/SKILL.md": "---\ndescription: h\ndisable-model-invocation: true\n---\n",
        }
    )
    found = {skill.name: skill for skill in folders.load("claude", nested=True).skills}
    assert list(found) == ["u", "a", "h", "p", "q", "n"]
    assert (found["a"].description, found["a"].content) == ("of the project", "body")
    assert found["u"].description == "of the user"
    assert found["q"].description == "First line"
    assert found["p"].patterns == (f"{folders.repo}/**/*_test.py",)
    assert found["n"].patterns == (f"{folders.repo}/app/**",)
    assert [skill.name for skill in found.values() if not skill.is_listed] == ["h"]  # all-6
