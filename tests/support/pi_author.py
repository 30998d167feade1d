"""Random sessions of pi and omp."""

from __future__ import annotations

import random

from builders import entry, pi_file
from pi_drivers import Fields


class Author:
    """A writer of random sessions with the entry kinds that the agent of ``profile`` has."""

    def __init__(self, seed: int, profile: str) -> None:
        self.chance = random.Random(seed)
        self.profile = profile
        self.ids: list[str] = []

    def session(self) -> bytes:
        kinds = [self.user] * 4 + [self.assistant] * 5 + [self.result] * 3
        kinds += [self.shell, self.summary, self.note, self.state, self.state, self.compaction, self.edit]
        if self.profile == "pi":
            kinds.append(self.system)
        lines = []
        for at in range(self.chance.randint(3, 60)):
            parent = None if not self.ids else self.ids[-1] if self.chance.random() < 0.9 else self.any_id()
            type, fields = self.chance.choice(kinds)()
            self.ids.append(f"{self.chance.getrandbits(32):08x}")
            lines.append(entry(type, self.ids[-1], parent, at + 1, **fields))
        return pi_file(*lines)

    def any_id(self) -> str:
        return self.chance.choice(self.ids[-8:] or ["x"])

    def words(self) -> str:
        return str(self.chance.choice(["hi ", "é𝄞 ", "\u2028"])) * self.chance.randint(0, 40)

    def blocks(self, *, images: bool = True) -> list[Fields]:
        picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        text = {"type": "text", "text": self.words()}
        every = [text, {**text, "textSignature": "s", "odd": 1}, *([picture] if images else [])]
        return [self.chance.choice(every) for _ in range(self.chance.randint(0, 3))]

    def user(self) -> tuple[str, Fields]:
        return "message", {"message": {"role": "user", "content": self.chance.choice([self.words(), self.blocks()])}}

    def assistant(self) -> tuple[str, Fields]:
        content = self.blocks(images=False)
        if self.chance.random() < 0.4:
            content.append({"type": "thinking", "thinking": self.words(), "thinkingSignature": "sig"})
        if self.chance.random() < 0.5:
            odd = {"n": 1e21, "m": 0.00001, "k": [1.0, -2.5e-9, True, None, "\u2028"]}
            arguments = self.chance.choice([{"command": self.words()}, odd, {}])
            content.append({"type": "toolCall", "id": self.call(), "name": "bash", "arguments": arguments})
        parts = {"input": self.chance.randint(0, 99), "output": 3, "cacheRead": 0, "cacheWrite": 0}
        usage = {**parts, "totalTokens": self.chance.choice([0, 500]), "cost": {"total": 0}}
        message = {
            "role": "assistant",
            "content": content,
            "provider": self.chance.choice("ab"),
            "model": self.chance.choice("mn"),
            "usage": usage,
            "stopReason": self.chance.choice(["stop", "toolUse", "stop", "error", "aborted"]),
        }
        return "message", {"message": message}

    def call(self) -> str:
        return f"c{self.chance.randint(0, 6)}"

    def result(self) -> tuple[str, Fields]:
        message = {"role": "toolResult", "toolCallId": self.call(), "toolName": "bash", "content": self.blocks()}
        return "message", {"message": {**message, "isError": False}}

    def shell(self) -> tuple[str, Fields]:
        said = {"role": "bashExecution", "command": "ls", "output": self.words(), "exitCode": 0}
        return "message", {"message": {**said, "excludeFromContext": self.chance.random() < 0.5}}

    def system(self) -> tuple[str, Fields]:
        said = {"role": "system", "content": self.words(), "sections": {"a": self.words()}, "toolsAdded": [{"n": 1.5}]}
        return "message", {"message": said}

    def summary(self) -> tuple[str, Fields]:
        return "branch_summary", {"summary": self.chance.choice(["", "B"]), "fromId": "root"}

    def note(self) -> tuple[str, Fields]:
        return "custom_message", {"customType": "x", "content": self.words(), "display": True, "details": {"a": 1}}

    def compaction(self) -> tuple[str, Fields]:
        kept = self.chance.choice([*self.ids[-8:], "nowhere"])
        system = {"systemMessage": {"role": "system", "content": "kept"}} if self.chance.random() < 0.4 else {}
        return "compaction", {"summary": "S", "firstKeptEntryId": kept, "tokensBefore": 9, **system}

    def edit(self) -> tuple[str, Fields]:
        new = self.chance.choice([None, {"content": "new"}, {"content": [{"type": "text", "text": "n2"}]}])
        return "context_edit", {"targetId": self.any_id(), "replacement": new}

    def state(self) -> tuple[str, Fields]:
        said: list[tuple[str, Fields]] = [
            ("thinking_level_change", {"thinkingLevel": self.chance.choice(["off", "high"])}),
            ("label", {"targetId": self.any_id(), "label": "l"}),
        ]
        if self.profile == "omp":
            said += [("model_change", {"model": "p/q"}), ("model_change", {"model": "p/s", "role": "small"})]
            said += [("reset_boundary", {}), ("ttsr_injection", {"injectedRules": ["a"]})]
        else:
            said.append(("model_change", {"provider": "p", "modelId": "q"}))
        return self.chance.choice(said)
