"""Tests of images that omp keeps in a folder of blobs: they are read, exported, and restored from the store alone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from builders import entry, header, joined, slot
from commands import Run

import gitsession
from gitsession.formats.pi import blobs
from gitsession.model.blocks import Image

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 5
NAME = f"blob:sha256:{sha256(PNG).hexdigest()}"
URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}".encode()
URL_NAME = f"blob:sha256:{sha256(URL).hexdigest()}"
LOST = "blob:sha256:" + "0" * 64


def image(name: str = NAME) -> dict[str, str]:
    return {"type": "image", "data": name, "mimeType": "image/png"}


def messages(*images: str) -> bytes:
    """Return a session of omp in which the user and a tool show ``images``."""
    shown = [image(name) for name in images]
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a.png"}}
    return joined(
        slot("T"), header(),
        entry("message", "a", None, message={"role": "user", "content": [{"type": "text", "text": "look"}, *shown]}),
        entry("message", "b", "a", message={"role": "assistant", "content": [call], "provider": "x", "model": "m"}),
        entry("message", "c", "b", message={
            "role": "toolResult", "toolCallId": "c1", "toolName": "read", "isError": False, "content": shown,
        }),
    )  # fmt: skip


def agents_folder(place: Path) -> Path:
    """Create a folder of omp with such a session and return the session file."""
    (place / "blobs").mkdir(parents=True)
    (place / "blobs" / sha256(PNG).hexdigest()).write_bytes(PNG)
    (place / "sessions" / "-work").mkdir(parents=True)
    file = place / "sessions" / "-work" / "x.jsonl"
    file.write_bytes(messages(NAME))
    return file


def import_file(run: Run, file: Path) -> str:
    """Import a file of omp and return the id of its session."""
    [imported] = json.loads(run("--store", "s.git", "import", "--from", "omp", str(file), "--json"))["sessions"]
    return str(imported["session"])


@pytest.fixture
def held(here: Path, run: Run) -> str:
    """Import such a session into the store ``s.git`` and delete the folder of its agent."""
    file = agents_folder(here / "agent")
    sid = import_file(run, file)
    shutil.rmtree(here / "agent")
    return sid


def of_type(value: Any, type: str) -> list[dict[str, Any]]:
    """Return every object of ``type`` in ``value``."""
    if isinstance(value, list):
        return [found for item in value for found in of_type(item, type)]
    if not isinstance(value, dict):
        return []
    return [value] * (value.get("type") == type) + of_type(list(value.values()), type)


@pytest.mark.parametrize("profile", ["omp", "pi", "claude", "codex", "opencode"])
def test_a_context_has_the_bytes_of_an_image(held: str, here: Path, profile: str) -> None:
    with gitsession.Store.open(here / "s.git") as store:
        context = store.session(next(iter(store.sessions())).sid).context(profile=profile)
    images = [block for item in context.items for block in item.content if isinstance(block, Image)]
    assert {(block.data, block.mime) for block in images} == {(PNG, "image/png")}
    request = json.dumps(context.request("anthropic"))
    assert request.count(base64.b64encode(PNG).decode()) == 2


PLACES = {
    "content of a message": {"role": "user", "content": [image()]},
    "content of a result": {"role": "toolResult", "toolCallId": "c1", "toolName": "read", "content": [image()]},
    "images of a result": {"role": "toolResult", "toolCallId": "c1", "content": [], "details": {"images": [image()]}},
    "frames of a result": {"role": "toolResult", "toolCallId": "c1", "content": [], "details": {"frames": [image()]}},
    "a generated image": {
        "role": "assistant", "content": [],
        "providerPayload": {"items": [{"type": "image_generation_call", "result": NAME}]},
    },
    "an image URL": {
        "role": "assistant", "content": [],
        "providerPayload": {"items": [{"type": "input_image", "image_url": URL_NAME}]},
    },
}  # fmt: skip
"""The places in which omp writes the name of a blob instead of an image."""


@pytest.mark.parametrize("place", PLACES)
def test_an_image_is_read_at_each_place_that_can_name_a_blob(here: Path, run: Run, place: str) -> None:
    file = agents_folder(here / "agent")
    (here / "agent" / "blobs" / URL_NAME.rpartition(":")[2]).write_bytes(URL)
    file.write_bytes(joined(slot("T"), header(), entry("message", "a", None, message=PLACES[place])))
    sid = import_file(run, file)
    shutil.rmtree(here / "agent")
    encoded = base64.b64encode(PNG).decode()
    for command in (("show", f"{sid}@leaf", "--json"), ("export", sid, "--to", "jsonl")):
        data = run("--store", "s.git", *command)
        assert encoded in data, command
        assert "blob:sha256:" not in data, command
    with gitsession.Store.open(here / "s.git") as store:
        assert b"blob:sha256:" not in repr(store.session(sid).read("leaf")).encode()


def test_show_and_readable_exports_describe_the_image(held: str, run: Run) -> None:
    described = f"image/png, {len(PNG):,} bytes"
    assert f"[image {described}]" in run("--store", "s.git", "show", f"{held}@leaf")
    assert run("--store", "s.git", "export", held, "--to", "markdown").count(f"*image: {described}*") == 2
    assert run("--store", "s.git", "export", held, "--to", "html").count(base64.b64encode(PNG).decode()[:400]) == 2


@pytest.mark.parametrize("agent", ["claude", "codex", "opencode", "pi", "jsonl"])
def test_an_export_has_the_bytes_of_an_image(held: str, here: Path, run: Run, agent: str) -> None:
    data = run("--store", "s.git", "export", held, "--to", agent)
    assert base64.b64encode(PNG).decode() in data
    assert NAME not in data


def test_fork_has_the_images_of_its_origin(held: str, here: Path, run: Run) -> None:
    fork = json.loads(run("--store", "s.git", "fork", held, "--json"))["session"]
    assert base64.b64encode(PNG).decode() in run("--store", "s.git", "export", fork, "--to", "claude")


def test_missing_image_becomes_text_and_is_counted(here: Path, run: Run) -> None:
    file = here / "x.jsonl"
    file.write_bytes(messages(LOST))
    sid = import_file(run, file)
    data = run("--store", "s.git", "export", sid, "--to", "claude")
    assert LOST not in data
    assert "its bytes are not in this store" in data
    told = run("--store", "s.git", "export", sid, "--to", "claude", err=True)
    assert "replaced with text: images missing from this store (1)" in told


def test_original_form_names_the_image_with_a_note(held: str, here: Path, run: Run) -> None:
    assert run("--store", "s.git", "export", held).encode() == messages(NAME)
    assert "`resume` restores them" in run("--store", "s.git", "export", held, err=True)


def test_resume_restores_the_image_and_overwrites_none(held: str, run: Run, isolated_home: Path) -> None:
    run("--store", "s.git", "resume", held, "--in", "omp")
    blob = isolated_home / ".omp" / "agent" / "blobs" / sha256(PNG).hexdigest()
    assert blob.read_bytes() == PNG
    assert [file.name for file in blob.parent.iterdir()] == [blob.name]
    blob.write_bytes(b"another program's")
    run("--store", "s.git", "resume", held, "--in", "omp")
    assert blob.read_bytes() == b"another program's"
    blob.unlink()
    run("--store", "s.git", "resume", held, "--in", "omp")
    assert blob.read_bytes() == PNG


LOADED_BY_OMP = """
const [root, file, blobs] = process.argv.slice(2);
const source = `${root}/pi-coding-agent/src/session/`;
const loader = await import(source + "session-loader.ts");
const { BlobStore } = await import(source + "blob-store.ts");
const { entries } = await loader.loadEntriesFromFileStream(file);
await loader.resolveBlobRefsInEntries(entries, new BlobStore(blobs));
const images = entries.flatMap((entry) => entry.message?.content ?? []).filter((block) => block.type === "image");
console.log(JSON.stringify(images.map((block) => block.data)));
process.exit(0);
"""


def test_the_real_omp_loads_the_restored_image(held: str, here: Path, run: Run, isolated_home: Path) -> None:
    lab = Path(os.environ.get("LAB", "/nonexistent"))
    omp, bun = lab / "omp/node_modules/@oh-my-pi", lab / "bun2/node_modules/bun/bin/bun.exe"
    if not omp.is_dir() or not bun.exists():
        pytest.skip("omp is not installed in $LAB")
    resumed = json.loads(run("--store", "s.git", "resume", held, "--in", "omp", "--json"))
    script = here / "load.mjs"
    script.write_text(LOADED_BY_OMP)
    blobs = isolated_home / ".omp" / "agent" / "blobs"
    done = subprocess.run([bun, script, omp, resumed["path"], blobs], stdout=subprocess.PIPE, check=True, timeout=120)
    assert json.loads(done.stdout) == [base64.b64encode(PNG).decode()] * 2


def test_only_blobs_with_a_matching_hash_are_used() -> None:
    line = entry("message", "a", None, message={"role": "user", "content": [image()]})
    assert blobs.resolve(line, lambda name: b"forged") == line


def test_blob_names_are_resolved_only_where_omp_does() -> None:
    contents = {NAME: PNG, URL_NAME: URL}
    text = {"type": "text", "text": NAME}
    found = {
        "content": [image(), text, {"type": "file", "data": NAME}],
        "images": [{"data": NAME}],
        "preserveData": {"snapcompact": {"frames": [{"data": NAME}]}, "history": [{"image_url": URL_NAME}]},
        "call": {"type": "image_generation_call", "result": NAME},
        "data": NAME,
    }
    expected = json.loads(json.dumps(found))
    encoded = base64.b64encode(PNG).decode()
    expected["content"][0]["data"] = expected["images"][0]["data"] = expected["call"]["result"] = encoded
    expected["preserveData"]["snapcompact"]["frames"][0]["data"] = encoded
    expected["preserveData"]["history"][0]["image_url"] = URL.decode()
    assert json.loads(blobs.resolve(json.dumps(found).encode(), contents.get)) == expected
