"""The memory of an agent of smolagents in a gitsession store. See docs/how-to/keep-smolagents-memory.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

from smolagents.memory import AgentMemory, MemoryStep, SystemPromptStep
from smolagents.models import ChatMessage

from gitsession.api.session import Session
from gitsession.api.store import Store
from gitsession.dataclass import dataclass
from gitsession.errors import LeafMoved
from gitsession.frameworks import smolagents_steps as convert
from gitsession.frameworks.keyed_sessions import session_folder
from gitsession.frameworks.smolagents_steps import AGENT, Images, Item
from gitsession.frameworks.stored_items import difference, patched
from gitsession.model.entries import Custom, Entry, Instructions, Reset
from gitsession.sessions.graph import numbered_name
from gitsession.sessions.node import Node

_EDIT = "smolagents:edit"


@dataclass(slots=True)
class _Recorded:
    """A step of the memory, as it is stored. ``keys``: its messages, see ``smolagents_steps.keys_of``."""

    step: MemoryStep
    item: Item
    node: Node
    keys: list[str]


class GitSessionMemory(AgentMemory):
    """The memory of an agent, kept in a gitsession store: ``agent.memory = GitSessionMemory("ada", store)``.

    The object has the steps of the session's active branch. A step that is appended is durable on return. Steps that
    are removed stay on the branch that is left. If another program appends to the branch at the same time, the memory
    continues on a new branch.

    Args:
        session_id: The program's own id of the session. It is stored as the key of the session.
        store: The store. The program closes it.
        cwd: The working directory of a new session. Defaults to that of the process.
        model: The name of the model, which is stored with its answers.
    """

    system_prompt: SystemPromptStep
    _steps: _Steps
    _recorded: list[_Recorded]
    _prompt: str | None
    """The system prompt that is recorded since the last reset."""
    _tip: Node
    _branch: str
    _images: Images

    def __init__(self, session_id: str, store: Store, *, cwd: str | None = None, model: str | None = None) -> None:
        """Find the session, or create it, and read its steps. Raises ``Malformed`` if they are damaged."""
        self._store = store
        self._model = model
        self._stored = store.keyed_session(session_id, agent=AGENT, cwd=session_folder(cwd))
        self._load()

    @property
    def stored(self) -> Session:
        """The gitsession session, for example for ``stored.files.checkpoint()``. After a move, call ``restore``."""
        return self._stored

    @property
    def steps(self) -> list[MemoryStep]:
        """The steps. A new list that is assigned is recorded at once."""
        return self._steps

    @steps.setter
    def steps(self, steps: Iterable[MemoryStep]) -> None:
        self._steps = _Steps(steps, self.save)
        self.save()

    def restore(self, at: str | Node = "leaf") -> None:
        """Read the steps from the store, for example after a rewind or a switch.

        Args:
            at: The entry after which the session continues, as for ``Session.continue_at``. Defaults to the tip of the
                active branch. A step of which not all entries are before that point is left out.

        Raises:
            NotFound: No entry matches ``at``.
            Malformed: A step is damaged.
        """
        self._stored = self._store.session(self._stored.id)
        if at != "leaf":
            self._stored.continue_at(at)
        self._load()

    def save(self) -> None:
        """Record all changes of the steps and of the system prompt. Appending a step calls this method.

        Raises:
            Malformed: The format cannot represent a step, for example because it is too large. Nothing was written.
        """
        kept = 0
        for recorded, step in zip(self._recorded, self._steps, strict=False):
            if recorded.step is not step:
                break
            kept += 1
        if 0 < kept < len(self._recorded):
            self._return_to(kept)
        resets = bool(self._recorded) and not kept
        entries: list[Entry] = [Reset()] if resets else []
        prompt = self.system_prompt.system_prompt
        if (resets or prompt != self._prompt) and self._steps:
            entries.append(Instructions(system_prompt=prompt))
        earlier = list(self._recorded[:kept])
        new: list[tuple[_Recorded, int]] = []
        for step in self._steps[kept:]:
            recorded, added = self._encoded(step, earlier, prompt)
            entries += added
            earlier.append(recorded)
            new.append((recorded, len(entries)))
        items = [convert.item_of(each.step, self._images, each.item.get("model")) for each in earlier[:kept]]
        changes = [difference(each.item, item) for each, item in zip(earlier, items, strict=False)]
        for at, change in enumerate(changes):
            if change is not None:
                entries.append(Custom(custom_type=_EDIT, data={"step": at, "change": json.dumps(change)}))
        if not entries:
            return
        nodes = self._append(entries)
        for recorded, end in new:
            recorded.node = nodes[end - 1]
        for each, item, change in zip(earlier, items, changes, strict=False):
            if change is not None:
                each.item, each.keys = item, self._keys(each.step)
        self._recorded, self._prompt = earlier, prompt if self._steps else None

    # ---- implementation

    def _encoded(self, step: MemoryStep, earlier: list[_Recorded], prompt: str) -> tuple[_Recorded, list[Entry]]:
        item = convert.item_of(step, self._images, self._model)
        known = [*self._keys(SystemPromptStep(prompt)), *(key for each in earlier for key in each.keys)]
        inputs = convert.references(getattr(step, "model_input_messages", None), known, self._images)
        return _Recorded(step, item, self._tip, self._keys(step)), convert.entries_of(item, inputs)

    def _keys(self, step: MemoryStep) -> list[str]:
        return convert.keys_of(step.to_messages(), self._images)

    def _append(self, entries: list[Entry]) -> list[Node]:
        """Append entries after those that this object knows; if others were appended, on a new branch."""
        stored = self._stored._session
        try:
            nodes = stored.append_after(entries, after=self._tip, branch=self._branch)
        except LeafMoved:
            branch = numbered_name("memory", self._stored.branches())
            nodes = stored.append_after(entries, after=self._tip, branch=branch, activate=True)
            self._stored = self._stored.on(branch)
            self._branch = branch
        self._tip = nodes[-1]
        return nodes

    def _return_to(self, kept: int) -> None:
        """Continue after the first ``kept`` steps, with these as they were stored then."""
        steps = self._steps
        self.restore(self._recorded[kept - 1].node)
        for recorded, step in zip(self._recorded, steps, strict=False):
            recorded.step = step
        self._steps = steps

    def _load(self) -> None:
        tip = self._stored.leaf
        assert tip is not None  # a session with a key is stored when it is created
        self._images, self._tip, self._branch = Images(), tip, self._stored.branch_name
        nodes: list[Node] = []
        entries: list[Entry] = []
        for node, entry in self._stored.entries(tip):
            if isinstance(entry, Reset):
                break
            nodes.append(node)
            entries.append(entry)
        nodes.reverse()
        entries.reverse()
        reader = _Reader(self._images)
        for at, entry in enumerate(entries):
            try:
                reader.read(entries, at, entry)
            except convert.DAMAGE as error:
                raise convert.damaged(error) from error
            if len(reader.ends) < len(reader.steps):
                reader.ends.append(nodes[at])
        self._prompt = reader.prompt
        self.system_prompt = SystemPromptStep(reader.prompt or "")
        models = [item.get("model") for item in reader.items]
        self._recorded = [
            _Recorded(step, convert.item_of(step, self._images, model), node, self._keys(step))
            for step, model, node in zip(reader.steps, models, reader.ends, strict=True)
        ]
        self._steps = _Steps(reader.steps, self.save)


class _Reader:
    """The steps of a session, which are read from its entries, the oldest first."""

    def __init__(self, images: Images) -> None:
        self.prompt: str | None = None
        self.items: list[Item] = []
        self.steps: list[MemoryStep] = []
        self.ends: list[Node] = []
        self._images = images
        self._messages: list[list[ChatMessage]] = []

    def read(self, entries: list[Entry], at: int, entry: Entry) -> None:
        """Read the entry ``entries[at]``."""
        if isinstance(entry, Instructions) and entry.system_prompt is not None:
            self.prompt = entry.system_prompt
        elif isinstance(entry, Custom) and entry.custom_type == _EDIT:
            number: Any = entry.data["step"]
            item = patched(self.items[number], json.loads(entry.data["change"]))
            inputs = getattr(self.steps[number], "model_input_messages", None)
            self.items[number] = item
            self.steps[number] = convert.step_of(item, inputs, self._images)
            self._messages[number] = self.steps[number].to_messages()
        elif (found := convert.stored_item(entries, at)) is not None:
            item, stated = found
            earlier = [*SystemPromptStep(self.prompt or "").to_messages(), *chain.from_iterable(self._messages)]
            step = convert.step_of(item, convert.referenced(stated, earlier, self._images), self._images)
            self._messages.append(step.to_messages())
            self.items.append(item)
            self.steps.append(step)


class _Steps(list[MemoryStep]):
    """A list that records its steps when one is appended."""

    def __init__(self, steps: Iterable[MemoryStep], save: Callable[[], None]) -> None:
        super().__init__(steps)
        self._save = save

    def append(self, step: MemoryStep) -> None:
        super().append(step)
        self._save()

    def extend(self, steps: Iterable[MemoryStep]) -> None:
        super().extend(steps)
        self._save()
