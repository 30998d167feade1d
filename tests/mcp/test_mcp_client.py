"""Tests of ``gitsession mcp`` with the official Python client, which checks each result against its schema."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gitsession import Message, Store

anyio = pytest.importorskip("anyio")
mcp = pytest.importorskip("mcp")


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_official_client_searches_and_reads(here: Path, mode: str, version: str) -> None:
    from mcp.client.stdio import StdioServerParameters, stdio_client

    with Store.create(here / "s.git") as store:
        session = store.new_session(agent="pi", cwd=str(here))
        session.append(Message.user("Fix the login"))
    words = ["-m", "gitsession", "--store", str(here / "s.git"), "mcp"]

    async def talk() -> None:
        server = StdioServerParameters(command=sys.executable, args=words)
        async with mcp.Client(stdio_client(server), mode=mode) as client:
            assert client.protocol_version == version
            assert len((await client.list_tools()).tools) == 8
            found = await client.call_tool("search_sessions", {"query": "login"})
            [hit] = found.structured_content["hits"]
            read = await client.call_tool("read_entry", {"session": hit["session"], "entry": hit["entry"]})
            assert read.structured_content["text"] == "> Fix the login"
            assert (await client.call_tool("read_entry", {"session": "zzz"})).is_error is True
            [resource] = (await client.list_resources()).resources
            assert "> Fix the login" in (await client.read_resource(resource.uri)).contents[0].text
            assert len((await client.list_resource_templates()).resource_templates) == 2

    anyio.run(talk)
