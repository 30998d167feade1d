"""Tests of the table of formats: one instance for each agent, loaded on demand, and its capabilities."""

import subprocess
import sys

import pytest

from gitsession import formats
from gitsession.formats import FORMATS, Database, Document, Format, Importing, Resumable, Streamed, with_capability


@pytest.mark.parametrize("agent", FORMATS)
def test_every_format_is_named_after_its_agent(agent):
    assert isinstance(FORMATS[agent], Format)
    assert agent == FORMATS[agent].AGENT
    assert FORMATS[agent] is FORMATS[agent]


def test_format_is_returned_only_with_the_requested_capability():
    assert with_capability("opencode", Database) is FORMATS["opencode"]
    assert with_capability("opencode", Document) is FORMATS["opencode"]
    assert with_capability("pi", Streamed) is FORMATS["pi"]
    assert with_capability("pi", Database) is None
    assert with_capability("librecode", Resumable) is None
    assert with_capability("no such agent", Resumable) is None


def test_formats_with_a_capability_keep_the_order_of_the_table():
    assert list(formats.all_with_capability(Format)) == list(FORMATS)
    assert list(formats.all_with_capability(Resumable)) == ["aider", "claude", "codex", "omp", "opencode", "pi"]
    assert list(formats.all_with_capability(Importing)) == ["opencode"]


@pytest.mark.parametrize(
    ("head", "agent"), [(b'{"type":"user","sessionId":"s"}\n', "claude"), (b'{"type":"session","id":"s"}\n', "pi")]
)
def test_detection_only_loads_the_matching_agent(head, agent):
    program = f"import sys; from gitsession.formats import claimed; print(claimed({head!r}).AGENT, *sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    told, *modules = done.stdout.split()
    assert told == agent
    loaded = [name for name in modules if name.startswith("gitsession.formats.") and name.endswith(".agent")]
    assert loaded == [f"gitsession.formats.{agent}.agent"]


def test_agents_are_loaded_separately():
    program = "import sys; from gitsession.formats import FORMATS as f; f['codex']; 'pi' in f; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("gitsession.formats.")}
    assert {name.split(".")[2] for name in loaded} == {"base", "codex"}
