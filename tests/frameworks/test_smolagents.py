"""Tests of the memory of smolagents' agents: real agents with scripted models, and random changes of the steps."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents")

import PIL.Image
from framework_items import WILD_JSON
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from smolagents import CodeAgent, Model, ToolCallingAgent, tool
from smolagents.memory import ActionStep, AgentMemory, MemoryStep, PlanningStep, TaskStep, ToolCall
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole
from smolagents.monitoring import AgentLogger, LogLevel, Timing, TokenUsage
from smolagents.utils import (
    AgentError,
    AgentExecutionError,
    AgentMaxStepsError,
    AgentParsingError,
    AgentToolExecutionError,
)

from gitsession import Custom, Malformed, Message, Store
from gitsession.frameworks.smolagents import GitSessionMemory
from gitsession.frameworks.smolagents_steps import AGENT

QUIET = AgentLogger(level=LogLevel.OFF)


class ScriptedModel(Model):
    """A model that answers with the given texts and calls, in turn."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(model_id="scripted-1")
        self.answers = list(answers)
        self.received: list[Any] = []

    def generate(self, messages: list[Any], *arguments: Any, **options: Any) -> ChatMessage:
        self.received.append(list(messages))
        answer = self.answers.pop(0)
        usage = TokenUsage(len(messages), len(self.received))
        if isinstance(answer, str):
            return ChatMessage(role=MessageRole.ASSISTANT, content=answer, token_usage=usage, raw={"of": "provider"})
        calls = [
            ChatMessageToolCall(
                ChatMessageToolCallFunction(json.dumps(given), name), f"call_{len(messages)}_{at}", "function"
            )
            for at, (name, given) in enumerate(answer)
        ]
        return ChatMessage(role=MessageRole.ASSISTANT, content="I call.", tool_calls=calls, token_usage=usage)


@tool
def double(number: int) -> int:
    """Double a number.

    Args:
        number: The number.
    """
    if number == 13:
        raise ValueError("I do not double 13")
    return number * 2


def code(text: str) -> str:
    return f"Thought: next.\n<code>\n{text}\n</code>"


def final(answer: Any) -> list[Any]:
    return [("final_answer", {"answer": answer})]


def coding(memory: AgentMemory | None, *answers: Any, **options: Any) -> CodeAgent:
    agent = CodeAgent(tools=[double], model=ScriptedModel(*answers), verbosity_level=0, **options)
    agent.memory = memory or agent.memory
    return agent


def calling(memory: AgentMemory | None, *answers: Any, **options: Any) -> ToolCallingAgent:
    agent = ToolCallingAgent(tools=[double], model=ScriptedModel(*answers), verbosity_level=0, **options)
    agent.memory = memory or agent.memory
    return agent


def image_text(value: Any) -> str:
    return repr((value.mode, value.size, value.tobytes())) if isinstance(value, PIL.Image.Image) else repr(value)


def full(value: Any) -> Any:
    """Return all that a memory or a part of one has, except the provider's own responses."""
    if isinstance(value, AgentMemory):
        return [value.system_prompt.system_prompt, full(value.steps)]
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.name != "raw"]
        return [type(value).__name__, [[name, full(getattr(value, name))] for name in names]]
    if isinstance(value, list | tuple):
        return [full(item) for item in value]
    if isinstance(value, dict):
        return {name: full(item) for name, item in value.items()}
    if isinstance(value, AgentError):
        return [type(value).__name__, str(value), value.dict()]
    return image_text(value)


def received(memory: AgentMemory) -> list[str]:
    """Return the messages that a model receives of a memory."""
    messages = memory.system_prompt.to_messages()
    for step in memory.steps:
        messages += step.to_messages()
    return [json.dumps([message.role, message.content], default=image_text) for message in messages]


def check_restored(memory: GitSessionMemory, store: Store, id: str = "a") -> GitSessionMemory:
    again = GitSessionMemory(id, store)
    assert received(again) == received(memory)
    assert full(again) == full(memory)
    assert [type(step) for step in again.steps] == [type(step) for step in memory.steps]
    leaf = again.stored.leaf
    again.save()
    assert again.stored.leaf == leaf, "a memory that was read is not recorded again"
    return again


def test_a_tool_calling_agent_continues_in_another_process_with_the_same_messages(tmp_path: Path) -> None:
    script = [[("double", {"number": 4})], [("double", {"number": 13})], final("eight"), final("again")]
    plain = calling(None, *script)
    plain.run("Double 4")
    plain.run("And now?", reset=False)
    with Store.create(tmp_path / "s.git") as store:
        memory = GitSessionMemory("a", store, model="scripted-1")
        assert calling(memory, *script[:3]).run("Double 4", reset=False) == "eight"
    with Store.open(tmp_path / "s.git") as store:
        again = check_restored(GitSessionMemory("a", store), store)
        resumed = calling(again, *script[3:])
        assert resumed.run("And now?", reset=False) == "again"
        assert received(again) == received(plain.memory)
        assert [len(each) for each in resumed.model.received] == [len(plain.model.received[-1])]
        subjects = [node.subject for node in again.stored.history()[1:]]
        assert subjects[1:5] == [
            "user: Double 4",
            "assistant: I call. (+1 tool)",
            "tool double: 1 line",
            "assistant: I call. (+1 tool)",
        ]
        [answer] = [entry for _, entry in again.stored.entries() if isinstance(entry, Message)][-2:-1]
        assert (answer.model, answer.usage) == ("scripted-1", {"input_tokens": 2, "output_tokens": 1})
        failed = [entry for _, entry in again.stored.entries() if isinstance(entry, Message) and entry.is_error]
        assert len(failed) == 1 and "I do not double 13" in failed[0].text
        assert store.verify().problems == []


def test_a_code_agent_with_plans_and_errors_is_restored() -> None:
    script = [
        "The plan is to compute.",
        code("x = double(4)\nprint(x)"),
        "This is no code.",
        "Another plan.",
        code("undefined_name"),
        code("final_answer({'value': (x, 1.5)})"),
    ]
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        agent = coding(memory, *script, planning_interval=2)
        assert agent.run("Compute", reset=False) == {"value": (8, 1.5)}
        again = check_restored(memory, store)
        assert [type(step).__name__ for step in again.steps] == [
            "TaskStep", "PlanningStep", "ActionStep", "ActionStep", "PlanningStep", "ActionStep", "ActionStep",
        ]  # fmt: skip
        assert again.return_full_code() == memory.return_full_code()
        errors = [type(step.error) for step in again.steps if isinstance(step, ActionStep) and step.error]
        assert errors == [AgentParsingError, AgentExecutionError]
        agent.replay(detailed=True)
        shown = "\n".join(node.subject for node in memory.stored.history())
        assert "assistant: Thought: next." in shown and "smolagents:error" in shown


def test_what_the_model_received_is_stored_as_references() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        agent = coding(
            memory, *[code(f"print({'x' * 300!r} + '{at}')") for at in range(30)], code("final_answer(1)"), max_steps=40
        )
        agent.run("Print", reset=False)
        sizes = [len(entry.extra[AGENT]) for _, entry in memory.stored.entries() if AGENT in entry.extra]
        assert len(sizes) == 32 and max(sizes) < 600
        check_restored(memory, store)


def test_the_answer_of_an_agent_that_reached_its_limit_is_shown() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        answer = coding(memory, code("1"), "It may be one.", max_steps=1).run("What is it?", reset=False)
        assert answer == "It may be one."
        check_restored(memory, store)
        last = memory.steps[-1]
        assert isinstance(last, ActionStep) and isinstance(last.error, AgentMaxStepsError)
        assert "assistant: It may be one." in [node.subject for node in memory.stored.history()]


def test_parallel_calls_have_results_for_other_models() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        agent = calling(memory, [("double", {"number": 1}), ("double", {"number": 2})], final(1))
        agent.run("Double 1 and 2", reset=False)
        check_restored(memory, store)
        request = memory.stored.context().request("openai-responses")["input"]
        calls = [each["call_id"] for each in request if each.get("type") == "function_call"]
        results = [each["call_id"] for each in request if each.get("type") == "function_call_output"]
        assert len(calls) == 3 and sorted(calls) == sorted(results)


def picture(color: str) -> PIL.Image.Image:
    return PIL.Image.new("RGB", (2, 2), color)


def test_images_are_stored_and_a_step_callback_can_remove_them() -> None:
    def keep_newest(step: ActionStep, agent: Any) -> None:
        for earlier in agent.memory.steps:
            if isinstance(earlier, ActionStep):
                earlier.observations_images = None
        step.observations_images = [picture("blue")]
        step.observations = (step.observations or "") + "\nA screenshot."

    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        agent = calling(
            memory, [("double", {"number": 1})], [("double", {"number": 2})], final(1), step_callbacks=[keep_newest]
        )
        agent.run("Look", reset=False, images=[picture("red"), picture("white")])
        task, *actions = check_restored(memory, store).steps
        assert [image.getpixel((0, 0)) for image in task.task_images] == [(255, 0, 0), (255, 255, 255)]
        assert [step.observations_images is None for step in actions] == [True, True, False]
        blocks = [
            block.type for _, entry in memory.stored.entries() if isinstance(entry, Message) for block in entry.content
        ]
        assert blocks.count("image") == 2 + 3, "an image that was removed stays in the history"
        assert memory.stored.read(memory.stored.leaf).custom_type == "smolagents:edit"


def test_run_without_reset_false_resets_and_loses_nothing() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        calling(memory, final("one")).run("First", reset=False)
        agent = calling(memory, final("two"))
        agent.run("Second")
        assert [type(step) for step in check_restored(memory, store).steps] == [TaskStep, ActionStep]
        kinds = [node.kind for node in memory.stored.history()]
        assert kinds.count("reset") == 1 and kinds.count("instructions") == 2
        assert "user: First" in [node.subject for node in memory.stored.history()]


def test_a_branch_an_earlier_entry_and_a_fork_are_restored() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        agent = calling(memory, final("one"), final("two"))
        agent.run("First", reset=False)
        before = received(memory)
        agent.run("Second", reset=False)
        after = received(memory)
        fork = GitSessionMemory("copy", store) if memory.stored.fork(key="copy") else None
        assert fork is not None and received(fork) == after
        tip = memory.stored.leaf
        memory.restore(memory._recorded[1].node)
        assert received(memory) == before and memory.stored.branch_name == "rewind-1"
        calling(memory, final("three")).run("Third", reset=False)
        memory.stored.switch("main")
        memory.restore()
        assert received(memory) == after and memory.stored.leaf == tip
        calling(fork, final("four")).run("Fourth", reset=False)
        assert len(fork.steps) == 6 and len(check_restored(memory, store).steps) == 4


def test_a_step_of_which_the_result_is_after_the_entry_is_left_out() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        calling(memory, [("double", {"number": 1})], final("one")).run("First", reset=False)
        [call] = [node for node in memory.stored.history() if node.subject.endswith("(+1 tool)")][:1]
        memory.restore(call)
        assert [type(step) for step in memory.steps] == [TaskStep]
        calling(memory, final("two")).run("Second", reset=False)
        check_restored(memory, store)


def test_two_programs_do_not_mix_their_steps(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git") as one, Store.open(tmp_path / "s.git") as two:
        first, second = GitSessionMemory("a", one), GitSessionMemory("a", two)
        calling(first, final("one")).run("First", reset=False)
        calling(second, final("two")).run("Second", reset=False)
        assert first.stored.branch_name == "main" and second.stored.branch_name == "memory-1"
        assert [len(each.steps) for each in (first, second)] == [2, 2]
        check_restored(second, two)
        assert one.verify().problems == []


def test_a_secret_is_redacted_in_the_store_and_restored_to_the_agent(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with Store.create(tmp_path / "s.git") as store:
        memory = GitSessionMemory("a", store)
        calling(memory, final(secret)).run(f"Use {secret}", reset=False)
        for node in memory.stored.history():
            assert secret not in node.subject and secret not in repr(memory.stored.read(node))
        check_restored(memory, store)


DAMAGED: dict[str, Any] = {
    "no JSON": "{",
    "no object": "[]",
    "an unknown step": '{"step": "x", "entries": 1, "change": null}',
    "too many entries": '{"step": "task", "entries": 9, "change": null}',
    "no number of entries": '{"step": "task", "entries": "many", "change": null}',
    "infinitely many entries": '{"step": "task", "entries": Infinity, "change": null}',
    "a change of nothing": '{"step": "task", "entries": 1, "change": {"x": {"y": {}}}}',
    "a task without its text": '{"step": "task", "entries": 1, "change": {"task": []}}',
    "a damaged image": '{"step": "task", "entries": 1, "change": {"task_images": [["iVBORw0KGgo="]]}}',
    "inputs that are no list": '{"step": "task", "entries": 1, "change": null, "inputs": 5}',
    "inputs that are no messages": '{"step": "task", "entries": 1, "change": null, "inputs": [{}]}',
}


@pytest.mark.parametrize("stated", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_step_is_refused_and_can_be_left_behind(stated: str) -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        memory.steps.append(TaskStep("First"))
        good = memory.stored.leaf
        memory.stored.append(Message(role="user", extra={AGENT: stated}))
        with pytest.raises(Malformed, match="cannot read a step"):
            GitSessionMemory("a", store)
        memory.restore(good)
        check_restored(memory, store)


@pytest.mark.parametrize("data", [None, {}, {"step": 4, "change": "{}"}, {"step": 0, "change": "x"}])
def test_a_damaged_edit_is_refused(data: Any) -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        memory.steps.append(TaskStep("First"))
        memory.stored.append(Custom(custom_type="smolagents:edit", data=data))
        with pytest.raises(Malformed, match="cannot read a step"):
            memory.restore()


def test_messages_of_other_programs_are_ignored() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        memory.steps.append(TaskStep("First"))
        memory.stored.append(Message.user("Hello"))
        memory.restore()
        assert len(memory.steps) == 1
        memory.steps.append(TaskStep("Second"))
        assert memory.stored.branch_name == "main" and len(check_restored(memory, store).steps) == 2


def test_a_step_of_an_unknown_type_is_refused() -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        with pytest.raises(Malformed, match="MemoryStep"):
            memory.steps.append(MemoryStep())


# ---- random steps

texts = st.text(st.characters(codec=None), max_size=8)  # with lone surrogates
plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
counts = st.integers(0, 10**6)
usages = st.none() | st.builds(TokenUsage, counts, counts)
timings = st.builds(Timing, st.floats(0, 2e9), st.none() | st.floats(0, 2e9))
pictures = st.none() | st.lists(st.sampled_from(["red", "blue"]).map(picture), max_size=2)
calls = st.builds(
    ToolCall,
    name=st.sampled_from(["double", "python_interpreter", "final_answer"]) | texts,
    arguments=WILD_JSON | texts,
    id=texts,
)
errors = st.none() | st.builds(
    lambda kind, text: kind(text, QUIET),
    st.sampled_from([AgentParsingError, AgentExecutionError, AgentMaxStepsError, AgentToolExecutionError]),
    texts,
)
message_calls = st.builds(
    ChatMessageToolCall, st.builds(ChatMessageToolCallFunction, WILD_JSON | texts, texts), texts, st.just("function")
)
parts = st.fixed_dictionaries({"type": st.just("text"), "text": texts}) | st.builds(
    lambda image: {"type": "image", "image": image}, st.just("green").map(picture)
)
messages = st.builds(
    ChatMessage,
    role=st.sampled_from(list(MessageRole)),
    content=st.none() | texts | st.lists(parts, max_size=2),
    tool_calls=st.none() | st.lists(message_calls, max_size=2),
    token_usage=usages,
)
tasks = st.builds(TaskStep, texts, pictures)
plans = st.builds(
    PlanningStep, model_input_messages=st.lists(messages, max_size=2), model_output_message=messages, plan=texts,
    timing=timings, token_usage=usages,
)  # fmt: skip
actions = st.builds(
    ActionStep, step_number=counts, timing=timings, model_input_messages=st.none() | st.lists(messages, max_size=2),
    tool_calls=st.none() | st.lists(calls, max_size=3), error=errors, model_output_message=st.none() | messages,
    model_output=st.none() | texts, code_action=st.none() | texts, observations=st.none() | texts,
    observations_images=pictures, action_output=WILD_JSON, token_usage=usages, is_final_answer=st.booleans(),
)  # fmt: skip
some_steps = tasks | plans | actions
changes: st.SearchStrategy[tuple[str, Any]] = st.one_of(
    st.tuples(st.just("append"), some_steps),
    st.tuples(st.just("extend"), st.lists(some_steps, max_size=2)),
    st.tuples(st.just("cut"), st.integers(0, 4)),
    st.tuples(st.just("remove"), st.integers(0, 4)),
    st.tuples(st.just("task"), texts),
    st.tuples(st.just("observe"), st.none() | texts),
    st.tuples(st.just("prompt"), plain_texts),
    st.tuples(st.just("reset"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
)


def with_inputs(memory: GitSessionMemory, step: MemoryStep) -> MemoryStep:
    """Let an action have received the messages of the memory, as an agent does."""
    if isinstance(step, ActionStep) and step.model_input_messages is None:
        step.model_input_messages = memory.system_prompt.to_messages()
        for earlier in memory.steps:
            step.model_input_messages += earlier.to_messages()
    return step


def change(memory: GitSessionMemory, action: str, argument: Any) -> None:
    steps = memory.steps
    match action:
        case "append":
            steps.append(with_inputs(memory, argument))
        case "extend":
            steps.extend(argument)
        case "cut":
            memory.steps = steps[:argument]
        case "remove" if argument < len(steps):
            del steps[argument]
        case "task" if steps and isinstance(steps[0], TaskStep):
            steps[0].task = argument
        case "observe" if steps and isinstance(steps[-1], ActionStep):
            steps[-1].observations = argument
            steps[-1].observations_images = None
        case "prompt":
            memory.system_prompt.system_prompt = argument
        case "reset":
            memory.reset()


@settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))
@given(st.lists(changes, max_size=10))
def test_the_memory_that_is_restored_equals_the_memory_that_ran(sequence: list[tuple[str, Any]]) -> None:
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        for action, argument in sequence:
            change(memory, action, argument)
            memory.save()
            if not memory.steps:
                memory.system_prompt.system_prompt = ""  # is stored with the first step
            again = check_restored(memory, store)
            if action == "reopen":
                memory = again


def test_an_unchanged_memory_appends_nothing_and_unusual_values_are_texts() -> None:
    values: list[tuple[Any, Callable[[Any], bool]]] = [
        (picture("red"), lambda found: found.getpixel((0, 0)) == (255, 0, 0)),
        ({1, 2}, lambda found: found == "{1, 2}"),
        (float("nan"), lambda found: found == "nan"),
        ((1, {2: 3}), lambda found: found == [1, {"2": 3}]),
        (picture("red").convert("CMYK"), lambda found: found.mode == "RGB"),
    ]
    with Store.in_memory() as store:
        memory = GitSessionMemory("a", store)
        for value, _ in values:
            memory.steps.append(ActionStep(1, Timing(0.0), action_output=value))
        again = GitSessionMemory("a", store)
        for step, (_, matches) in zip(again.steps, values, strict=True):
            assert isinstance(step, ActionStep) and matches(step.action_output)
        leaf = again.stored.leaf
        memory.save()
        again.save()
        assert again.stored.leaf == leaf
