"""Tests of instructions that a hostile project contains. Each input has a name, and the tests name their rule."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from instruction_files import Folders

from gitsession import Message, Store
from gitsession.instructions import loader, reading
from gitsession.instructions.load import AGENTS
from gitsession.instructions.scopes import absolute, expand_braces, matches

FILE_OF = {
    "claude": "repo/CLAUDE.md", "codex": "repo/AGENTS.md", "opencode": "repo/AGENTS.md", "pi": "repo/AGENTS.md",
    "omp": "repo/AGENTS.md", "aider": "repo/A.md",
}  # fmt: skip


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(reading.FILE_BYTES_MAX + 1)


def make_binary(path: Path) -> None:
    path.write_bytes(b"text\0more")


def make_escape(path: Path) -> None:
    outside = path.parents[1] / "secret"
    outside.write_text("secret")
    path.symlink_to(outside)


HOSTILE = {
    "a named pipe": make_fifo,
    "a device": make_device,
    "a large file": make_large,
    "a binary file": make_binary,
    "a link out of the project": make_escape,
}


@pytest.mark.parametrize("agent", FILE_OF)
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
def test_all_1_and_2_hostile_files_are_refused_by_name(folders: Folders, agent: str, make: object) -> None:
    if agent == "aider" and make is make_escape:
        pytest.skip("the user lists Aider's files, which can be anywhere")
    folders.write({"repo/.aider.conf.yml": "read: A.md\n"})
    assert callable(make)
    make(folders.base / FILE_OF[agent])
    found = folders.load(agent)
    assert [file.path for file in found.files] == []
    if make not in (make_fifo, make_device) or agent in ("claude", "omp", "aider"):
        assert list(folders.problems(found)) == [FILE_OF[agent]]


def test_all_1_a_file_that_cannot_be_read_is_named(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    folders.write({"repo/CLAUDE.md": "x"})

    def refuse(path: Path, *_: object, **__: object) -> int:
        if Path(path).name == "CLAUDE.md":
            raise PermissionError(13, "Permission denied")
        return opened(path, *_, **__)  # type: ignore[arg-type]

    opened = os.open
    monkeypatch.setattr(os, "open", refuse)
    assert folders.problems(folders.load("claude"))["repo/CLAUDE.md"] == "permission denied"


def test_all_2_a_link_in_the_users_folder_leads_anywhere(folders: Folders) -> None:
    folders.write({"dotfiles/CLAUDE.md": "user"})
    (folders.home / ".claude").mkdir()
    (folders.home / ".claude/CLAUDE.md").symlink_to(folders.base / "dotfiles/CLAUDE.md")
    assert folders.texts("claude") == ["user"]


def test_all_2_a_folder_of_rules_that_leads_out_is_refused(folders: Folders) -> None:
    folders.write({"secrets/a.md": "secret", "repo/.claude/x": ""})
    (folders.repo / ".claude/rules").symlink_to(folders.base / "secrets")
    found = folders.load("claude")
    assert found.files == ()
    assert list(folders.problems(found)) == ["repo/.claude/rules"]


def test_all_2_a_circle_of_links_ends(folders: Folders) -> None:
    (folders.repo / ".claude").mkdir()
    (folders.repo / ".claude/rules").mkdir()
    (folders.repo / ".claude/rules/again").symlink_to(folders.repo / ".claude/rules")
    (folders.repo / "CLAUDE.md").symlink_to(folders.repo / "CLAUDE.md")
    folders.write({"repo/.claude/rules/a.md": "once"})
    for agent in AGENTS:
        folders.load(agent)
    assert folders.texts("claude") == ["once"]


def test_all_3_a_file_that_imports_itself_is_named(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "@a.md", "repo/a.md": "@b.md", "repo/b.md": "@CLAUDE.md @a.md"})
    found = folders.load("claude")
    assert len(found.files) == 3
    assert folders.problems(found) == {
        "repo/CLAUDE.md": "it imports itself: CLAUDE.md -> a.md -> b.md -> CLAUDE.md",
        "repo/a.md": "it imports itself: a.md -> b.md -> a.md",
    }


def test_all_4_thousands_of_files_are_limited(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FILES_MAX", 20)
    monkeypatch.setattr(reading, "FOLDER_ENTRIES_MAX", 100)
    folders.write({f"repo/.claude/rules/{n}.md": f"{n}" for n in range(30)})
    found = folders.load("claude")
    assert len(found.files) == 20
    problem = "more than 20 files of instructions: 10 files left out"
    assert folders.problems(found) == {"repo/.claude/rules": problem}
    folders.write({f"repo/folder{n}/a/b": "" for n in range(200)})
    assert "more than 100 files were searched" in folders.problems(folders.load("claude", nested=True)).values()


def test_all_4_the_total_size_is_limited_and_smaller_files_are_still_read(folders: Folders) -> None:
    folders.write({f"repo/.claude/rules/{n:04}.md": f"{n:04}" + "x" * 65_532 for n in range(200)})
    folders.write({"home/.claude/CLAUDE.md": "Be brief.", "repo/CLAUDE.local.md": "Use tabs."})
    found = folders.load("claude")
    assert folders.problems(found) == {
        "repo/.claude/rules": f"more than {reading.TOTAL_BYTES_MAX:,} bytes of instructions: 73 files left out"
    }
    assert len(found.files) == 129
    assert found.files[0].content == "Be brief."
    assert found.files[-1].content == "Use tabs."


@pytest.mark.parametrize(("agent", "name"), [("codex", "skills/s{n}/SKILL.md"), ("pi", "skills/s{n}/SKILL.md")])
def test_all_4_the_total_size_of_skills_is_limited(folders: Folders, agent: str, name: str) -> None:
    head = "---\ndescription: d\n---\n"
    home = {"codex": "home/.codex", "pi": "home/.pi/agent"}[agent]
    folders.write({f"{home}/{name.format(n=n)}": f"{head}{'x' * 3_000_000}" for n in range(4)})
    found = folders.load(agent)
    assert len(found.skills) == 2
    assert [reason.endswith(": 1 file left out") for reason in folders.problems(found).values()] == [True, True]


def test_all_4_few_bytes_of_globs_do_not_become_a_large_set(folders: Folders) -> None:
    for n in range(400):
        globs = ", ".join(f"{n}/{{{','.join(map(str, range(100)))}}}/{k}" for k in range(20))
        folders.write({f"repo/.claude/rules/{n}.md": f"---\npaths: '{globs}'\n---\nrule"})
    found = folders.load("claude", "repo/" + "deep" * 50)
    kept = sum(len(glob) for file in found.files for glob in file.patterns)
    assert 1_000_000 < kept < loader.SET_BYTES_MAX
    assert "more than 256 globs in `paths`: the others are ignored" in folders.problems(found).values()
    wide = "{" + ",".join("a" * 200) + "}" + "x" * 30_000
    assert expand_braces(wide) == (wide,)


def test_all_4_a_recorded_set_of_the_largest_size_fits_into_an_entry(folders: Folders, tmp_path: Path) -> None:
    folders.write({f"repo/.claude/rules/{n}.md": "x\n" * 32_768 for n in range(200)})
    found = folders.load("claude")
    with Store.create(tmp_path / "store.git") as store:
        session = store.new_session(agent="claude")
        session.append(Message.user("hi"))
        session.record_instructions(found)
        assert session.instructions() == found


def test_all_4_thousands_of_problems_are_counted(folders: Folders) -> None:
    folders.write({"repo/CLAUDE.md": "".join(f"@../{n}.md\n" for n in range(10_000))})
    found = folders.load("claude")
    assert len(found.problems) == reading.PROBLEMS_MAX + 1
    assert folders.problems(found)["repo"] == "9,500 more problems are not listed"


def test_all_4_imports_that_are_not_looked_for_are_not_called_missing(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FOLDER_ENTRIES_MAX", 2)
    folders.write({"repo/CLAUDE.md": "@a.md @b.md @c.md @d.md", "repo/d.md": "not looked for"})
    problems = folders.problems(folders.load("claude"))
    assert problems.pop("repo") == "more than 2 files were searched: 2 files left out"
    assert list(problems) == ["repo/a.md", "repo/b.md"]


FRONT_MATTER = {
    "not YAML": "---\na: [\n---\ntext",
    "deep": "---\na: " + "[" * 20_000 + "\n---\ntext",
    "a list": "---\n- paths\n---\ntext",
    "aliases": "---\na: &a [x]\nb: &b [*a, *a]\npaths: [*b, *b]\n---\ntext",
    "large": "---\n" + "# comment\n" * 20_000 + "---\ntext",
}


@pytest.mark.parametrize("text", FRONT_MATTER.values(), ids=FRONT_MATTER)
def test_all_5_front_matter_that_is_not_usable_is_ignored(folders: Folders, text: str) -> None:
    folders.write({"repo/.claude/rules/a.md": text})
    assert folders.texts("claude") == ["text"]


def test_all_5_front_matter_runs_nothing(folders: Folders) -> None:
    folders.write({"repo/.claude/rules/a.md": "---\nx: !!python/object/apply:os.mkdir [made]\n---\ntext"})
    assert folders.texts("claude") == ["text"]
    assert not Path("made").exists()


NAMES = {
    "a null character": "@a\0b", "a long name": "@" + "a" * 5_000, "no home": "@~nobody/a", "dots": "@" + "../" * 500,
    "a surrogate": "@\udc80", "backslashes": "@\\\\\\", "only a sign": "@ @@ @/ @./",
}  # fmt: skip


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_imports_of_strange_names_are_text(folders: Folders, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass").replace(b"\0", b"\x01")
    for name in ("CLAUDE.md", "AGENTS.md"):
        (folders.repo / name).write_bytes(data)
    assert len(folders.load("claude").files) == len(folders.load("omp").files) == 1


def test_patterns_of_many_wildcards_take_no_time() -> None:
    pattern = "/" + "**/" * 200 + "*a" * 50 + "/x"
    assert not matches([pattern], "/" + "a" * 200 + "/" + "b/" * 200 + "y")
    assert len(expand_braces("{a,b}" * 50)) == 1
    assert absolute(["{a,b}/c.{d,e}"], Path("/r[1]")) == (
        "/r[[]1]/a/c.d", "/r[[]1]/b/c.d", "/r[[]1]/a/c.e", "/r[[]1]/b/c.e",
    )  # fmt: skip


MATCHES = {
    "a name": ("*.ts", "/r/a/b.ts", True),
    "a path": ("src/*.ts", "/r/src/a.ts", True),
    "one part": ("src/*.ts", "/r/src/deep/a.ts", False),
    "any depth": ("src/**/*.ts", "/r/src/a.ts", True),
    "a folder": ("src", "/r/x/src/a/b", True),
    "only below": ("src/**", "/r/src", False),
    "another root": ("*.ts", "/q/a.ts", False),
    "the start": ("/a.ts", "/r/x/a.ts", False),
}


@pytest.mark.parametrize(("glob", "path", "is_match"), MATCHES.values(), ids=MATCHES)
def test_globs(glob: str, path: str, is_match: bool) -> None:
    assert matches(absolute([glob], Path("/r")), path) == is_match


def test_the_last_glob_decides() -> None:
    patterns = absolute(["*.ts", "!test/**", "test/keep.ts"], Path("/r"))
    paths = ("/r/a.ts", "/r/test/a.ts", "/r/test/keep.ts")
    assert [matches(patterns, path) for path in paths] == [True, False, True]


def test_all_4_deep_folders_of_rules_are_read(folders: Folders) -> None:
    deep = folders.repo / ".claude"
    for name in ["rules", *"d" * 1_000]:
        deep /= name
        deep.mkdir(parents=name == "rules")
    (deep / "a.md").write_text("deep")
    found = folders.texts("claude")
    (deep / "a.md").unlink()
    os.removedirs(deep)  # pytest cannot remove it
    assert found == ["deep"]


TYPES = ["!!bool no-word", "!!int ''", "!!float ''", "!!timestamp no-time", "!!binary é", "2001-99-99", "9" * 60_000]


@pytest.mark.parametrize("value", TYPES)
def test_all_5_a_value_that_has_not_the_type_of_its_tag_is_no_error(folders: Folders, value: str) -> None:
    folders.write({"repo/.claude/rules/a.md": f"---\nx: {value}\n---\ntext"})
    assert folders.texts("claude") == ["text"]


def test_all_5_merged_mappings_do_not_grow_exponentially(folders: Folders) -> None:
    levels = [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 40)]
    folders.write({"repo/.claude/rules/a.md": f"---\na0: &a0 {{x: 1}}\n{''.join(levels)}---\ntext"})
    assert folders.texts("claude") == ["text"]


LONG = {"comments": "<!-- -->x" + "<!--" * 800_000, "backticks": "`" * 3_000_000 + "x`"}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG)
def test_all_4_the_time_grows_with_the_size_of_a_file_only(folders: Folders, text: str) -> None:
    """Read long runs of marks. If the time grew with the square of the size, this test would take hours."""
    folders.write({"repo/CLAUDE.md": text})
    assert len(folders.load("claude").files) == 1
