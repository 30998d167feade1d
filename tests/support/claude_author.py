"""Random valid sessions of Claude Code: each entry refers only to earlier entries and continues from the tip."""

from __future__ import annotations

import random
from typing import Any

from claude_code import assistant, call, compacted, last_prompt, line, note, result, user


class Author:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.lines: list[bytes] = []
        self.chain: list[str] = []  # the context since the last compaction
        self.prompts: list[tuple[str, str | None]] = []  # the prompts in ``chain``, each with its parent
        self.count = 0

    def session(self) -> list[bytes]:
        for _ in range(self.chance.randint(2, 9)):
            step = self.chance.choice([self.turn] * 6 + [self.compaction, self.rewind, self.aside, self.named])
            step()
        self.turn()
        if self.chance.random() < 0.5:
            self.lines.append(last_prompt(self.leaf))
        return self.lines

    @property
    def leaf(self) -> str | None:
        return self.chain[-1] if self.chain else None

    def put(self, write: Any, *rest: Any, **fields: Any) -> str:
        self.count += 1
        id = f"n{self.count}"
        self.lines.append(write(id, self.leaf, *rest, at=self.count, **fields))
        self.chain.append(id)
        return id

    def turn(self) -> None:
        parent = self.leaf
        self.prompts.append((self.put(user), parent))
        if self.chance.random() < 0.2:
            self.put(user, isMeta=True)
        for _ in range(self.chance.randint(0, 3)):
            self.calls()
        answer = f"q{self.count}"
        if self.chance.random() < 0.3:
            self.put(assistant, {"type": "thinking", "thinking": "hm", "signature": "sig"}, answer=answer)
        self.put(assistant, answer=answer)
        if self.chance.random() < 0.3:
            self.lines.append(line("system", f"t{self.count}", self.leaf, at=self.count, subtype="turn_duration"))
            self.chain.append(f"t{self.count}")

    def calls(self) -> None:
        """Write parallel calls. Each result is a child of its call; the calls end in random order."""
        answer, made = f"q{self.count}", []
        if self.chance.random() < 0.3:
            self.put(assistant, answer=answer)
        for _ in range(self.chance.randint(1, 3)):
            id = f"n{self.count + 1}"
            made.append(self.put(assistant, call(f"call_{id}"), answer=answer))
        self.chance.shuffle(made)
        for id in made:
            self.count += 1
            self.lines.append(result(f"n{self.count}", id, f"call_{id}", at=self.count))
            self.chain.append(f"n{self.count}")

    def compaction(self) -> None:
        if not self.chain:
            return
        self.count += 1
        kept = self.chance.choice([0, 0, 1, 2])
        starts = [at for at, id in enumerate(self.chain) if id in dict(self.prompts)][-kept:] if kept else []
        keeps = tuple(id for id in self.chain[starts[0] :] if not id.startswith("t")) if starts else ()
        self.lines += compacted(f"n{self.count}", self.leaf, at=self.count, keeps=keeps)
        self.chain, self.prompts = [f"sn{self.count}"], []

    def rewind(self) -> None:
        """Return to a random prompt and drop the conversation from there."""
        if not self.prompts:
            return
        at = self.chance.randrange(len(self.prompts))
        _, parent = self.prompts[at]
        if parent is not None:
            del self.prompts[at:], self.chain[self.chain.index(parent) + 1 :]

    def aside(self) -> None:
        self.count += 1
        self.lines.append(user(f"n{self.count}", None, at=self.count, isSidechain=True))

    def named(self) -> None:
        self.lines += [note("ai-title", aiTitle="T"), note("mode", mode="normal")]
