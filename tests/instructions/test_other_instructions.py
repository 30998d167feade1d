"""Tests of the rules of codex, opencode, pi, omp and Aider (docs/reference/instructions.md). Each names its rule."""

from __future__ import annotations

import json

import pytest
from instruction_files import Folders

from gitsession.errors import NotFound


def skill(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: does {name}\n{more}---\nbody of {name}\n"


def test_codex_1_the_first_file_of_the_user_that_is_not_empty(folders: Folders) -> None:
    folders.write({"home/.codex/AGENTS.override.md": " \n", "home/.codex/AGENTS.md": "\n user \n"})
    assert [file.content for file in folders.load("codex").files] == ["user"]
    folders.write({"home/.codex/AGENTS.override.md": "override"})
    assert folders.texts("codex") == ["override"]


def test_codex_2_and_3_one_file_of_each_folder(folders: Folders) -> None:
    folders.write(
        {
            "AGENTS.md": "above the project",
            "repo/AGENTS.md": "root",
            "repo/AGENTS.override.md": "override",
            "repo/app/TEAM.md": "fallback",
            "repo/app/deep/AGENTS.override.md": "",
            "repo/app/deep/AGENTS.md": "hidden by an empty file",
            "home/.codex/config.toml": 'project_doc_fallback_filenames = ["TEAM.md", "../AGENTS.md"]\n',
        }
    )
    found = folders.load("codex", "repo/app/deep")
    assert [file.content for file in found.files] == ["override", "fallback"]
    assert found.problems == (("../AGENTS.md", "an entry of project_doc_fallback_filenames that is not a file name"),)


def test_codex_2_markers_of_the_root(folders: Folders) -> None:
    folders.write({"AGENTS.md": "above", "marked": "", "repo/AGENTS.md": "root"})
    folders.write({"home/.codex/config.toml": 'project_root_markers = ["marked"]'})
    assert folders.texts("codex") == ["above", "root"]
    folders.write({"home/.codex/config.toml": "project_root_markers = []", "repo/app/AGENTS.md": "app"})
    assert folders.texts("codex", "repo/app") == ["app"]


def test_codex_4_the_files_of_the_project_share_a_budget(folders: Folders) -> None:
    folders.write({"home/.codex/AGENTS.md": "u" * 40_000, "repo/AGENTS.md": "r" * 30_000})
    folders.write({"repo/app/AGENTS.md": "a" * 3_000, "repo/app/deep/AGENTS.md": "d"})
    found = folders.load("codex", "repo/app/deep")
    sizes = [(len(file.content), file.is_truncated) for file in found.files]
    assert sizes == [(40_000, False), (30_000, False), (2_768, True)]
    folders.write({"home/.codex/config.toml": "project_doc_max_bytes = 0"})
    assert len(folders.load("codex").files) == 1


def test_codex_5_skills_by_origin(folders: Folders) -> None:
    folders.write(
        {
            "home/.codex/skills/.system/s/SKILL.md": skill("s"),
            "home/.codex/skills/u/SKILL.md": skill("u"),
            "home/.agents/skills/v/SKILL.md": skill("v"),
            "repo/.agents/skills/deep/b/SKILL.md": skill("b"),
            "repo/app/.codex/skills/a/SKILL.md": skill("a"),
            "repo/app/.codex/skills/a/agents/openai.yaml": "policy:\n  allow_implicit_invocation: false\n",
            "repo/.agents/skills/none/SKILL.md": "no front matter",
            "system/etc/codex/skills/x/SKILL.md": skill("x"),
        }
    )
    found = folders.load("codex", "repo/app")
    assert [each.name for each in found.skills] == ["s", "a", "b", "u", "v", "x"]
    assert [each.name for each in found.skills if not each.is_listed] == ["a"]
    assert folders.problems(found) == {"repo/.agents/skills/none/SKILL.md": "a skill without a description"}


def test_opencode_1_and_2_the_first_name_that_any_folder_has(folders: Folders) -> None:
    folders.write(
        {
            "home/.claude/CLAUDE.md": "user",
            "AGENTS.md": "above the project",
            "repo/CLAUDE.md": "root",
            "repo/app/CLAUDE.md": "app",
            "repo/app/CONTEXT.md": "context",
        }
    )
    assert folders.texts("opencode", "repo/app") == ["user", "app", "root"]
    folders.write({"home/.config/opencode/AGENTS.md": "own", "repo/AGENTS.md": "agents"})
    assert folders.texts("opencode", "repo/app") == ["own", "agents"]


def test_opencode_3_configured_files_globs_and_urls(folders: Folders) -> None:
    settings = '{"instructions": ["docs/**/*.md", "~/own.md", "https://example.com/a.md"], /* a */ } // b'
    folders.write(
        {
            "repo/opencode.jsonc": settings,
            "repo/docs/b.md": "b",
            "repo/docs/deep/a.md": "a",
            "repo/docs/c.txt": "c",
            "home/own.md": "own",
            "home/.config/opencode/opencode.json": json.dumps({"instructions": [str(folders.base / "any*.md")]}),
            "any1.md": "any",
        }
    )
    found = folders.load("opencode")
    assert [file.content for file in found.files] == ["any", "b", "a", "own"]
    assert found.problems == (("https://example.com/a.md", "a URL, which is not fetched"),)


def test_opencode_4_folders_below(folders: Folders) -> None:
    folders.write({"repo/app/CLAUDE.md": "app", "repo/app/CONTEXT.md": "context", "repo/app/deep/AGENTS.md": "deep"})
    assert folders.texts("opencode", touched=["app/deep/a.py"]) == ["deep", "app"]
    assert folders.texts("opencode", touched=["app/a.py"]) == ["app"]


def test_opencode_5_variables_leave_out_files(folders: Folders) -> None:
    folders.write({"home/.claude/CLAUDE.md": "user", "repo/CLAUDE.md": "claude", "repo/CONTEXT.md": "context"})
    found = folders.load("opencode", environment={"OPENCODE_DISABLE_CLAUDE_CODE": "1"})
    assert [file.content for file in found.files] == ["context"]
    assert folders.load("opencode", environment={"OPENCODE_DISABLE_PROJECT_CONFIG": "true"}).files[0].content == "user"


def test_opencode_6_skills(folders: Folders) -> None:
    folders.write(
        {
            "repo/.opencode/skill/d/SKILL.md": skill("d"),
            "repo/.claude/skills/deep/c/SKILL.md": skill("c"),
            "home/.agents/skills/b/SKILL.md": skill("b"),
            "home/.config/opencode/skills/a/SKILL.md": skill("a"),
        }
    )
    assert [each.name for each in folders.load("opencode", "repo/app").skills] == ["a", "b", "c", "d"]


def test_pi_1_and_3_files_of_the_system_prompt_need_trust(folders: Folders) -> None:
    folders.write({"home/.pi/agent/SYSTEM.md": "user", "repo/.pi/SYSTEM.md": "project"})
    folders.write({"repo/.pi/APPEND_SYSTEM.md": "added", "repo/.pi/skills/s.md": skill("s")})
    found = folders.load("pi")
    assert [file.content for file in found.files] == ["user"]
    assert {reason for _, reason in found.problems} == {"the user did not trust the project"}
    folders.write({"home/.pi/agent/trust.json": json.dumps({str(folders.base): True})})
    assert folders.texts("pi") == ["project", "added"]
    assert [each.name for each in folders.load("pi").skills] == ["s"]
    folders.write({"home/.pi/agent/trust.json": json.dumps({str(folders.base): True, str(folders.repo): False})})
    assert folders.texts("pi") == ["user"]


def test_pi_2_one_file_of_each_folder(folders: Folders) -> None:
    folders.write(
        {
            "home/.pi/agent/CLAUDE.md": "user",
            "AGENTS.md": "above",
            "repo/AGENTS.override.md": "override",
            "repo/AGENTS.md": "hidden",
            "repo/app/CLAUDE.md": "app",
        }
    )
    assert folders.texts("pi", "repo/app") == ["user", "above", "override", "app"]


def test_pi_4_skills(folders: Folders) -> None:
    folders.write(
        {
            "home/.pi/agent/skills/a.md": skill("a"),
            "home/.pi/agent/skills/deep/b/SKILL.md": skill("b"),
            "home/.pi/agent/skills/deep/b/inner/SKILL.md": skill("never"),
            "home/.agents/skills/c/SKILL.md": skill("c", "disable-model-invocation: true\n"),
            "home/.agents/skills/readme.md": skill("never"),
        }
    )
    found = folders.load("pi").skills
    assert [(each.name, each.is_listed) for each in found] == [("a", True), ("b", True), ("c", False)]


def test_omp_1_and_2_one_context_file_of_the_user_and_of_each_folder(folders: Folders) -> None:
    folders.write(
        {
            "home/.omp/agent/AGENTS.md": "user",
            "home/.agents/AGENTS.md": "hidden",
            "home/.claude/CLAUDE.md": "of another agent",
            "AGENTS.md": "above the project",
            "repo/CLAUDE.md": "root",
            "repo/app/.omp/AGENTS.md": "own",
            "repo/app/AGENTS.md": "hidden",
        }
    )
    assert folders.texts("omp", "repo/app") == ["user", "root", "own"]
    folders.write({"repo/app/deep/.github/copilot-instructions.md": "copilot", "repo/app/deep/AGENTS.md": "hidden"})
    assert folders.texts("omp", "repo/app/deep") == ["user", "root", "own", "copilot"]


def test_omp_3_imports_replace_their_address(folders: Folders) -> None:
    folders.write({"repo/AGENTS.md": "See @docs/a.md. `@docs/a.md` @../secret @none", "repo/docs/a.md": "A @b.md!"})
    folders.write({"repo/docs/b.md": "B @a.md", "secret": "secret"})
    found = folders.load("omp")
    assert [file.content for file in found.files] == ["See A B @a.md!. `@docs/a.md` @../secret @none"]
    assert folders.problems(found) == {
        "repo/docs/a.md": "it imports itself: docs/a.md -> docs/b.md -> docs/a.md",
        "secret": "an import from outside of the project",
    }


def test_omp_4_to_6_rules(folders: Folders) -> None:
    folders.write(
        {
            "home/.omp/agent/RULES.md": "sticky",
            "repo/.omp/RULES.md": "sticky of the project",
            "repo/.omp/rules/always.md": "---\nalwaysApply: true\n---\nalways",
            "repo/.cursor/rules/always.mdc": "---\nalwaysApply: true\n---\nhidden by the name",
            "repo/.cursor/rules/more.mdc": "---\nalwaysApply: true\nglobs: *.ts\n---\nmore",
            "repo/.omp/rules/glob.md": "---\ndescription: scripts\nglobs:\n  - '*.ts'\n---\nscript rules",
            "repo/.omp/rules/demand.md": "---\ndescription: on demand\n---\ndemanded",
            "repo/.omp/rules/plain.md": "neither",
            "repo/.omp/rules/off.md": "---\nenabled: false\nalwaysApply: true\n---\noff",
            "repo/.omp/rules/watch.md": "---\ncondition: 'foo|bar'\n---\nwatched",
        }
    )
    assert folders.texts("omp") == ["always", "sticky", "sticky of the project", "more"]
    found = {each.name: each for each in folders.load("omp").skills}
    assert list(found) == ["demand", "glob", "watch"]
    assert (found["glob"].description, found["glob"].content) == ("scripts (*.ts)", "script rules")
    assert not found["watch"].is_listed


def test_omp_7_skills_of_a_name_are_hidden_by_the_first(folders: Folders) -> None:
    folders.write(
        {
            "repo/.omp/skills/a/SKILL.md": skill("a", "x: own\n"),
            "repo/.claude/skills/a/SKILL.md": skill("a"),
            "home/.agents/skills/b/SKILL.md": skill("b"),
            "home/.claude/skills/c/SKILL.md": skill("c"),
        }
    )
    found = folders.load("omp", "repo/app").skills
    assert [each.path.removeprefix(f"{folders.base}/") for each in found] == [
        "repo/.omp/skills/a/SKILL.md", "home/.agents/skills/b/SKILL.md",
    ]  # fmt: skip


def test_aider_1_a_text_or_a_list_of_files_and_folders(folders: Folders) -> None:
    folders.write({"repo/.aider.conf.yml": "read: CONVENTIONS.md\n", "repo/CONVENTIONS.md": "conventions"})
    assert folders.texts("aider") == ["conventions"]
    folders.write({"repo/.aider.conf.yml": "read: [CONVENTIONS.md, docs, ~/own.md, none.md]\n", "repo/docs/a.md": "a"})
    folders.write({"home/own.md": "own"})
    found = folders.load("aider")
    assert [file.content for file in found.files] == ["conventions", "a", "own"]
    assert folders.problems(found) == {"repo/none.md": "absent"}


def test_aider_2_the_last_configuration_counts(folders: Folders) -> None:
    folders.write({"home/.aider.conf.yml": "read: a.md\n", "repo/.aider.conf.yml": "dark-mode: true\n"})
    folders.write({"repo/a.md": "home", "repo/app/a.md": "app", "repo/app/b.md": "b"})
    assert folders.texts("aider") == ["home"]
    assert folders.texts("aider", "repo/app") == ["app"]
    folders.write({"repo/app/.aider.conf.yml": "read: [b.md]\n"})
    assert folders.texts("aider", "repo/app") == ["b"]
    found = folders.load("aider", "repo/app", environment={"AIDER_READ": "a.md"})
    assert [file.content for file in found.files] == ["app"]


def test_an_unknown_agent_is_an_error(folders: Folders) -> None:
    with pytest.raises(NotFound, match="unknown agent"):
        folders.load("librecode")
