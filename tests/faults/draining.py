"""An ingest and a hook with faults: the folder ``work``, the agent's file and the store, side by side."""

from __future__ import annotations

from pathlib import Path

from hooks import Agent

from gitsession.api import Store

WORKS = ("drain", "hook")


def prepare(place: Path) -> Agent:
    """Create a session with three calls whose events are all in the spool, and an empty store."""
    place.mkdir(parents=True)
    agent = Agent(place)
    agent.fill(a="1", b="1")
    agent.prompt("u1", "do it")
    for number in ("1", "2", "3"):
        agent.calls(f"t{number}")
        agent.fill(a=f"call {number}", **{f"made{number}": number})
        agent.called(f"t{number}")
    Store.create(agent.store).close()
    agent.fill(b="2")
    return agent


def do(work: str, place: str) -> None:
    """Run the work called ``work``."""
    if work == "drain":
        with Store.open(Path(place) / "store.git") as store:
            store.drain()
    else:
        Agent(Path(place)).tell("PreToolUse", tool_name="Bash", tool_use_id="call_t9")
