"""Tests of the instructions in a context: rules I1 to I7 (docs/reference/context.md), W6 and C6."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import Clock
from claude_code import SESSION, line, of, talk
from claude_code import compacted as boundary_and_summary
from claude_code import user as claude_user
from codex_files import TALK, rollout, said
from instruction_sets import PROJECT, PYTHON, USER, file, made, skill

from gitsession import Context, InstructionSet, Message, Store, model_facing
from gitsession.api import Session
from gitsession.codec.digest import to_base64url
from gitsession.context import build
from gitsession.context.history import ContextHistory
from gitsession.context.instruction_texts import active_skills
from gitsession.model.blocks import Text, ToolCall
from gitsession.model.entries import Compaction, Injection, Instructions

LOCAL = file("/work/CLAUDE.local.md", "Use pytest.\n", "local")
FILES = made("claude", USER, PROJECT, LOCAL, PYTHON, skill("deploy"), skill("lint", patterns=("/work/*.toml",)))
PROFILES = ("pi", "pi-0.73", "omp", "claude", "codex", "librecode", "opencode", "aider")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.create(tmp_path / "store.git", clock=Clock()) as opened:
        yield opened


def begun(store: Store, found: InstructionSet = FILES) -> Session:
    session = store.new_session(agent="mine")
    session.record_instructions(found)
    session.append(Message.user("first prompt"))
    return session


def use(session: Session, tool: str, *, is_error: bool = False, result: str = "done", **arguments: Any) -> None:
    call = ToolCall(f"call{len(session.history())}", tool, arguments)
    session.append(Message.assistant([Text("I work"), call], provider="anthropic", model="m"))
    session.append(Message.tool(call, result, is_error=is_error))


def compacted(session: Session, **fields: Any) -> None:
    session.append(Compaction(summary="the summary", **fields))


def parts(context: Context) -> list[tuple[str, int, tuple[str, ...]]]:
    return [(text.part, text.at, text.names) for text in context.instruction_texts]


def rules(context: Context) -> list[str]:
    return [name for text in context.instruction_texts if text.part == "rule" for name in text.names]


def skills(context: Context) -> list[str]:
    return [name for text in context.instruction_texts if text.part == "skill" for name in text.names]


def spoken(request: dict[str, Any]) -> str:
    return json.dumps(request, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


def order_of(text: str, *words: str) -> list[str]:
    """Return those of ``words`` that are in ``text``, in the order of their first places."""
    return sorted((word for word in words if word in text), key=text.index)


# I1: files without patterns


@pytest.mark.parametrize("provider", ["anthropic", "openai-chat", "openai-responses", "codex", "pi"])
@pytest.mark.parametrize("profile", PROFILES)
def test_i1_each_request_has_the_files_once_and_in_order(store: Store, profile: str, provider: str) -> None:
    request = spoken(begun(store).context(profile=profile).request(provider))
    assert order_of(request, "first prompt", "Be brief.", "Use tabs.", "Use pytest.") == [
        "Be brief.", "Use tabs.", "Use pytest.", "first prompt",
    ]  # fmt: skip
    assert request.count("Use tabs.") == 1
    assert "Type everything." not in request


def test_i1_claude_code_has_a_reminder_before_the_first_prompt(store: Store) -> None:
    [first, *_] = begun(store).context(profile="claude").request("anthropic")["messages"]
    assert first["role"] == "user"
    reminder, prompt = (block["text"] for block in first["content"][:2])
    assert reminder == (
        "<system-reminder>\n# claudeMd\n"
        "Contents of /home/me/.claude/CLAUDE.md (user instructions):\n\nBe brief.\n\n"
        "Contents of /work/CLAUDE.md (project instructions):\n\nUse tabs.\n\n"
        "Contents of /work/CLAUDE.local.md (local instructions):\n\nUse pytest.\n</system-reminder>"
    )
    assert prompt == "first prompt"


def test_i1_codex_has_a_developer_and_a_user_message(store: Store) -> None:
    found = made(
        "codex", file("/home/me/.codex/AGENTS.md", "Be brief.\n", "user"), file("/work/AGENTS.md", "Use tabs.\n"),
        file("/work/sub/AGENTS.md", "No tabs.\n"), skill("deploy"), cwd="/work/sub",
    )  # fmt: skip
    skills, files, prompt = begun(store, found).context(profile="codex").request("codex")["input"]
    assert (skills["role"], files["role"], prompt["role"]) == ("developer", "user", "user")
    assert "- deploy: about deploy (file: /work/.claude/skills/deploy/SKILL.md)" in skills["content"][0]["text"]
    assert files["content"][0]["text"] == (
        "# AGENTS.md instructions for /work/sub\n\n<INSTRUCTIONS>\n"
        "Be brief.\n\n--- project-doc ---\n\nUse tabs.\n\n\nNo tabs.\n\n</INSTRUCTIONS>"
    )


@pytest.mark.parametrize("profile", ["pi", "pi-0.73", "omp", "librecode", "opencode"])
def test_i1_other_agents_have_the_files_in_the_system_prompt(store: Store, profile: str) -> None:
    session = begun(store)
    session.append(Instructions(system_prompt="You help.", files=session.read("leaf~1").files))  # type: ignore[attr-defined]
    context = session.context(profile=profile)
    system = context.request("anthropic")["system"]
    assert order_of(system, "You help.", "/work/CLAUDE.md", "Use tabs.", "deploy") == [
        "You help.", "/work/CLAUDE.md", "Use tabs.", "deploy",
    ]  # fmt: skip
    replaced = context.request("openai-chat", system="You code.")["messages"][0]["content"]
    assert order_of(replaced, "You help.", "You code.", "Use tabs.") == ["You code.", "Use tabs."]
    assert context.request("pi")["messages"][0]["role"] == "system"


def test_i1_aider_has_a_user_message_with_an_answer(store: Store) -> None:
    found = made("aider", file("/work/CONVENTIONS.md", "Use tabs.", "convention"))
    messages = begun(store, found).context(profile="aider").request("openai-chat")["messages"]
    assert messages[:2] == [
        {"role": "user", "content": "CONVENTIONS.md\n```\nUse tabs.\n```"},
        {"role": "assistant", "content": "Ok."},
    ]


def test_i1_the_newest_set_is_in_force(store: Store) -> None:
    session = begun(store)
    before = session.context().digest
    session.record_instructions(made("claude", PROJECT))
    assert [text.names for text in session.context().instruction_texts] == [(PROJECT.path,)]
    assert len(session.context("leaf~1").instruction_texts) == 2
    assert session.context("leaf~1").digest == before != session.context().digest


# I2: rules for paths


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/work/src/a/b.py"}),
        ("read", {"path": "src/a.py"}),
        ("edit", {"path": "./src/../src/a.py", "old_string": "a", "new_string": "b"}),
        ("Write", {"file_path": "/work/src/a.py", "content": "x"}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/a.py\n@@\n-a\n+b\n*** End Patch"}),
    ],
)
def test_i2_a_rule_is_in_force_after_a_matching_file_is_touched(
    store: Store, tool: str, arguments: dict[str, Any]
) -> None:
    session = begun(store)
    use(session, tool, **arguments)
    session.append(Message.assistant("next", provider="anthropic", model="m"))
    context = session.context(profile="claude")
    assert ("rule", 3, (PYTHON.path,)) in parts(context)
    assert rules(session.context("leaf~3", profile="claude")) == []
    request = spoken(context.request("anthropic"))
    assert order_of(request, "done", "Type everything.", "next") == ["done", "Type everything.", "next"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("Read", {"file_path": "/work/src/a.js"}),
        ("Read", {"file_path": "/other/src/a.py"}),
        ("Grep", {"path": "/work/src/a.py", "pattern": "x"}),
        ("LS", {"path": "/work/src/a.py"}),
        ("Bash", {"command": "cat /work/src/a.py"}),
    ],
)
def test_i2_other_calls_bring_no_rule_into_force(store: Store, tool: str, arguments: dict[str, Any]) -> None:
    session = begun(store)
    use(session, tool, **arguments)
    assert rules(session.context(profile="claude")) == []


def test_i2_a_failed_call_brings_no_rule_into_force(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py", is_error=True)
    assert rules(session.context(profile="claude")) == []
    use(session, "Read", file_path="/work/src/b.py")
    use(session, "Read", file_path="/work/src/c.py")
    assert rules(session.context(profile="claude")) == [PYTHON.path]


def test_i2_a_rule_follows_the_results_of_parallel_calls(store: Store) -> None:
    session = begun(store)
    calls = [ToolCall(name, "Read", {"file_path": f"/work/src/{name}.py"}) for name in "ab"]
    session.append(Message.assistant(calls, provider="anthropic", model="m"))
    for call in calls:
        session.append(Message.tool(call, "done"))
    assert ("rule", 4, (PYTHON.path,)) in parts(session.context(profile="claude"))


def test_i2_codex_and_aider_have_no_rules_for_paths(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    assert [rules(session.context(profile=profile)) for profile in ("codex", "aider")] == [[], []]


# I3 and I4: skills


def test_i3_skills_are_listed_without_their_content(store: Store) -> None:
    context = begun(store).context(profile="claude")
    assert parts(context)[-1] == ("skills", 1, ("deploy", "lint"))
    request = spoken(context.request("anthropic"))
    assert "- deploy: about deploy" in request
    assert "body of deploy" not in request


@pytest.mark.parametrize(("tool", "name"), [("Skill", "skill"), ("skill", "name")])
def test_i4_a_tool_call_activates_a_skill(store: Store, tool: str, name: str) -> None:
    session = begun(store, made("claude", skill("deploy", "to $ARGUMENTS")))
    use(session, tool, **{name: "deploy", "args": "prod"})
    request = spoken(session.context(profile="claude").request("anthropic"))
    assert "Base directory for this skill: /work/.claude/skills/deploy\n\nto prod" in request


def test_i4_an_injection_activates_a_skill_from_its_entry_on(store: Store) -> None:
    session = begun(store)
    session.append(Message.assistant("hello", provider="anthropic", model="m"))
    session.activate_skill("deploy")
    session.append(Message.user("go"))
    assert ("skill", 2, ("deploy",)) in parts(session.context(profile="claude"))
    assert skills(session.context("leaf~2", profile="claude")) == []
    session.activate_skill("deploy")
    assert skills(session.context(profile="claude")) == ["deploy"]


def test_i4_a_prompt_activates_a_skill_of_codex(store: Store) -> None:
    session = begun(store)
    session.append(Message.user("please $deploy now, not $other"))
    assert skills(session.context(profile="codex")) == ["deploy"]
    assert skills(session.context(profile="claude")) == []
    assert "<skill>\n<name>deploy</name>" in spoken(session.context(profile="codex").request("codex"))


def test_i4_a_touched_path_activates_a_skill_with_patterns(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/pyproject.toml")
    assert skills(session.context(profile="claude")) == ["lint"]


def test_i4_a_skill_that_the_tool_returned_is_not_added(store: Store) -> None:
    session = begun(store)
    use(session, "skill", name="deploy", result="<skill_content>\nbody of deploy\n</skill_content>")
    assert skills(session.context(profile="opencode")) == []


# I5, W6 and C6: after a compaction


def test_w6_files_stay_in_force_after_a_compaction_and_rules_do_not(store: Store) -> None:
    """I5: rules are in force again only once a matching file is touched again."""
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    compacted(session)
    context = session.context(profile="claude")
    assert parts(context) == [("files", 0, (USER.path, PROJECT.path, LOCAL.path)), ("skills", 1, ("deploy", "lint"))]
    assert order_of(spoken(context.request("anthropic")), "the summary", "Use tabs.") == ["Use tabs.", "the summary"]
    use(session, "Read", file_path="/work/src/b.py")
    assert rules(session.context(profile="claude")) == [PYTHON.path]


def test_w6_kept_calls_bring_no_rule_into_force(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    first = session.resolve("leaf~1")
    compacted(session, first_kept=to_base64url(first.chain))
    context = session.context(profile="claude")
    assert len(context.items) == 3
    assert rules(context) == []


def test_w6_active_skills_are_shown_again_after_each_compaction(store: Store) -> None:
    session = begun(store)
    session.activate_skill("deploy")
    for number in range(2):
        for _ in range(12):
            session.append(Message.user(f"prompt {number} " * 300))
            session.append(Message.assistant("answer " * 300, provider="anthropic", model="m"))
        assert session.compact(profile="claude", keep_tokens=100) is not None
        context = session.context(profile="claude")
        [(_, at, _)] = [part for part in parts(context) if part[0] == "skill"]
        assert at == len(context.items)


def test_w6_skills_that_claude_code_carried_over_its_compaction_are_active(store: Store, tmp_path: Path) -> None:
    """I7: the program stores their content in an attachment, so it is not added again."""
    attached = {"type": "invoked_skills", "skills": [{"name": "deploy", "path": "p", "content": "body of deploy"}, 3]}
    path = tmp_path / f"{SESSION}.jsonl"
    lines = [*talk("a", "b"), *boundary_and_summary("c", "b"), line("attachment", "d", "sc", attachment=attached)]
    path.write_bytes(of(*lines, claude_user("e", "d")))
    session = store.session(store.import_file(path)[0].session)
    assert spoken(session.context().request("anthropic")).count("body of deploy") == 1
    session.record_instructions(made("claude", skill("deploy")), at_ms=1)
    context = session.context()
    assert spoken(context.request("anthropic")).count("body of deploy") == 1
    assert active_skills(session._handle.context_line(), "claude", context.items, context.instructions) == ("deploy",)


def test_w6_skills_that_are_too_large_are_cut_and_the_oldest_are_dropped(store: Store) -> None:
    names = [f"s{number}" for number in range(7)]
    session = begun(store, made("claude", *(skill(name, f"{name} " * 9_000) for name in names)))
    compacted(session, preserve={"skills": [*names, "gone", 3]})
    context = session.context(profile="claude")
    assert skills(context) == names[2:]
    assert all(len(text.text) < 20_200 for text in context.instruction_texts if text.part == "skill")


def test_c6_codex_puts_its_instructions_after_the_summary_before_a_new_turn(store: Store) -> None:
    session = begun(store)
    session.append(Message.assistant("answer", provider="openai", model="m"))
    compacted(session)
    session.append(Message.user("second prompt"))
    request = spoken(session.context(profile="codex").request("codex"))
    assert order_of(request, "the summary", "Use tabs.", "second prompt") == [
        "the summary", "Use tabs.", "second prompt",
    ]  # fmt: skip


def test_c6_codex_puts_its_instructions_before_the_last_kept_prompt_within_a_turn(store: Store) -> None:
    session = begun(store)
    prompt = session.append(Message.user("second prompt"))
    use(session, "shell", command="ls")
    compacted(session, first_kept=to_base64url(prompt.chain))
    use(session, "shell", command="pwd")
    request = spoken(session.context(profile="codex").request("codex"))
    assert order_of(request, "the summary", "Use tabs.", "second prompt") == [
        "the summary", "Use tabs.", "second prompt",
    ]  # fmt: skip


def test_c6_codex_puts_its_instructions_before_the_summary_if_no_prompt_is_kept(store: Store) -> None:
    session = begun(store)
    use(session, "shell", command="ls")
    compacted(session)
    request = spoken(session.context(profile="codex").request("codex"))
    assert order_of(request, "the summary", "Use tabs.") == ["Use tabs.", "the summary"]


# I7: texts that the agent stored


def test_i7_codexs_own_items_are_not_added_again(store: Store, tmp_path: Path) -> None:
    stored = "# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\nUse tabs.\n\n</INSTRUCTIONS>"
    listed = "<skills_instructions>\n- deploy: about deploy (file: r0/SKILL.md)\n</skills_instructions>"
    path = tmp_path / "rollout-2026-11-21T20-34-22-01a1ffd1-326d-7a00-aa58-5bfc88e9657a.jsonl"
    path.write_bytes(rollout(said("developer", listed), said("user", stored), TALK))
    session = store.session(store.import_file(path)[0].session)
    session.record_instructions(made("codex", file("/work/AGENTS.md", "Use tabs.\n"), skill("deploy")), at_ms=1)
    request = spoken(session.context().request("codex"))
    assert session.instructions() is not None
    assert (request.count("Use tabs."), request.count("about deploy")) == (1, 1)


def test_i7_a_recorded_system_prompt_with_the_files_is_not_extended(store: Store) -> None:
    session = begun(store)
    prompt = "You help.\n<file>\nUse tabs.\n</file>"
    session.append(Instructions(system_prompt=prompt, files=session.read("leaf~1").files))  # type: ignore[attr-defined]
    assert session.context(profile="omp").request("anthropic")["system"].count("Use tabs.") == 1


def test_i7_a_prompt_with_the_same_words_does_not_hide_a_file(store: Store) -> None:
    session = begun(store)
    session.append(Message.user("Use tabs."))
    assert spoken(session.context(profile="claude").request("anthropic")).count("Use tabs.") == 2


# Tokens, policies, digest, clones


def test_texts_are_counted_in_the_breakdown(store: Store) -> None:
    session = begun(store)
    tokens = session.context(profile="claude").tokens
    assert tokens.by_kind["instructions"] > 0
    assert tokens.used == sum(tokens.by_role.values()) == sum(tokens.by_kind.values())
    plain = store.new_session(agent="mine")
    plain.append(Message.user("first prompt"))
    assert "instructions" not in plain.context(profile="claude").tokens.by_kind


def test_a_providers_count_includes_the_texts_before_the_answer(store: Store) -> None:
    session = begun(store)
    session.append(Message.assistant("hello", provider="anthropic", model="m", usage={"input": 500, "output": 5}))
    tokens = session.context(profile="claude").tokens
    assert tokens.used == 505
    assert tokens.exact
    session.activate_skill("deploy")
    after = session.context(profile="claude").tokens
    assert after.used > 505
    assert not after.exact


def test_a_policy_keeps_the_texts_at_their_places(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    session.append(Message.user("second prompt"))
    context = session.context(profile="claude", policies=[model_facing("user", "assistant")])
    request = spoken(context.request("anthropic"))
    assert order_of(request, "first prompt", "Type everything.", "second prompt") == [
        "first prompt", "Type everything.", "second prompt",
    ]  # fmt: skip


def test_the_digest_covers_the_texts_and_is_the_same_in_every_clone(store: Store, tmp_path: Path) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    session.activate_skill("deploy")
    store.flush()
    other, _ = Store.clone(str(store.objects.git_dir), tmp_path / "clone.git")
    with other:
        for profile in PROFILES:
            ours, theirs = session.context(profile=profile), other.session(session.id).context(profile=profile)
            assert ours.digest == theirs.digest
            assert ours.instruction_texts == theirs.instruction_texts
            assert ours.digest != Context(ours.profile, ours.items, ours.state, ours.tokens).digest
    assert (Path(store.objects.git_dir) / "gitsession/index.db").exists()


def test_a_context_without_a_catalog_has_the_same_texts(store: Store) -> None:
    session = begun(store)
    use(session, "Read", file_path="/work/src/a.py")
    session.activate_skill("deploy")
    known = session.context(profile="claude")
    assert session.leaf is not None
    assert build.context(ContextHistory(store.objects, session.leaf.oid), "claude").digest == known.digest


def test_secrets_in_files_are_revealed_only_on_their_machine(store: Store, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2" * 9
    session = begun(store, made("claude", file("/work/CLAUDE.md", f"token: {secret}")))
    store.flush()
    other, _ = Store.clone(str(store.objects.git_dir), tmp_path / "clone.git")
    with other:
        theirs = other.session(session.id).context(profile="claude")
        assert secret not in spoken(theirs.request("anthropic"))
        assert theirs.digest == session.context(profile="claude").digest
    assert secret in spoken(session.context(profile="claude").request("anthropic"))


def test_an_export_for_another_agent_has_no_instructions(store: Store) -> None:
    session = begun(store)
    store.flush()
    assert b"Use tabs." not in store.export(session.id, to="codex").data


def test_malformed_activations_are_ignored(store: Store) -> None:
    session = begun(store)
    session.append(Injection(rules="deploy"))
    session.append(Injection(rules=[3, None, "gone"]))
    compacted(session, preserve={"skills": "deploy"})
    assert skills(session.context(profile="claude")) == []
