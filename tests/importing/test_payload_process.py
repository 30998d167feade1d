"""Tests of the process that searches and compresses the payloads of an import: the store is the same without it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import assert_clean, bring, on_disk, pi_file, said

from gitsession.importing import payloads
from gitsession.parallel import Ahead
from gitsession.store import writing
from gitsession.store.git_store import GitStore

TOKEN = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bD1fG3hJ5"
IDS = [f"a{number}" for number in range(40)]
WITH_TOKEN = {"a0", "a7"}  # one in the first portion, one in another
DATA = pi_file(
    *(
        said(id, above, text=f"{id} {TOKEN}" if id in WITH_TOKEN else f"{id} says: " + f"{id} " * 300)
        for id, above in zip(IDS, [None, *IDS], strict=False)
    )
)


@pytest.fixture(autouse=True)
def small_imports_use_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "BYTES_MIN", 1)
    monkeypatch.setattr(payloads, "_FIRST_PORTION_BYTES", 1_000)
    monkeypatch.setattr(payloads, "_PORTION_BYTES_MAX", 4_000)
    monkeypatch.setattr(writing, "FLUSH_BYTES", 1)  # so that the import writes a pack
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(2))
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])


def imported(at: Path) -> tuple[GitStore, dict[str, tuple[str, bytes]]]:
    """Import the file; return the store and all of its objects."""
    store = on_disk(at)
    bring(store, DATA, agent="pi")
    return store, {oid: store.read(oid) for oid in store.oids()}


def test_objects_and_packs_are_those_of_an_import_without_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = []
    real = Ahead.next
    monkeypatch.setattr(Ahead, "next", lambda ahead: (received.append(found := real(ahead)), found)[1])
    store, objects = imported(tmp_path / "with.git")
    portions = [each for each in received if each is not None]
    assert sum(len(each.deflated) for each in portions) == len(IDS) - len(WITH_TOKEN), "not those with a token"
    assert portions[0].searched.start == 2 and portions[0].searched.stop > 2, "the first portion was searched before"
    assert received[-1] is None
    monkeypatch.setattr(payloads, "BYTES_MIN", 1 << 30)
    received.clear()
    other, expected = imported(tmp_path / "without.git")
    assert not received
    assert objects == expected
    packs = [sorted((at.git_dir / "objects/pack").glob("*.pack")) for at in (store, other)]
    assert [each.name for each in packs[0]] == [each.name for each in packs[1]]
    assert_clean(store)
    assert not any(TOKEN.encode() in data for _, data in objects.values())


def fail(error: BaseException) -> None:
    raise error


def kill(_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    "happens", [kill, lambda _: fail(MemoryError()), lambda _: os._exit(0)], ids=["killed", "out of memory", "ended"]
)
@pytest.mark.parametrize("step", ["deflate", "oid_of"])
def test_work_of_a_failed_process_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happens: Callable[[object], None], step: str,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    expected = imported(tmp_path / "without.git")[1]
    monkeypatch.setattr(payloads, step, lambda *_: happens(None))  # the process alone uses these names
    assert imported(tmp_path / "with.git")[1] == expected
    assert capfd.readouterr().err == ""


def test_rest_is_searched_here_if_the_process_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = imported(tmp_path / "without.git")[1]
    monkeypatch.setattr(payloads.Payloads, "_work", lambda *_: fail(MemoryError()))
    assert imported(tmp_path / "with.git")[1] == expected


@pytest.mark.parametrize("lacks", ["fork", "memfd_create"])
def test_work_is_done_here_if_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: str
) -> None:
    expected = imported(tmp_path / "without.git")[1]
    monkeypatch.setattr(os, lacks, lambda *_: fail(BlockingIOError("too many")))
    assert imported(tmp_path / "with.git")[1] == expected


def test_no_process_is_started_while_another_thread_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = threading.Thread(name="other")
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), other])
    monkeypatch.setattr(os, "fork", lambda: fail(AssertionError("a process was started")))
    imported(tmp_path / "store.git")


def test_process_ends_with_a_failed_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    children = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: (children.append(child := fork()), child)[1])
    monkeypatch.setattr(writing.StoreWriter, "_write_pack", lambda *_: fail(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        imported(tmp_path / "store.git")
    assert children
    with pytest.raises(ChildProcessError):
        os.waitpid(children[0], os.WNOHANG)
