"""Tests of a check in parts: it has the same findings as a check of the whole store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import Clock, begun, fork

from gitsession.api import Store
from gitsession.model.entries import Message
from gitsession.store import refs
from gitsession.store.git_store import GitStore
from gitsession.verify import entry_walk, store_parts


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitStore]:
    """A store of a session with a fork, and of two other sessions. Each part has as few sessions as possible."""
    monkeypatch.setattr(store_parts, "_INDEX_BYTES_MIN", 0)
    monkeypatch.setattr(store_parts, "ENTRIES_MIN", 1)
    with Store.create(tmp_path / "store.git", clock=Clock()) as made:
        first = begun(made.objects, "one", "two", "three")
        begun(made.objects, "other")
        fork(first).append(Message.user("beside"))
        begun(made.objects, "last")
        made.flush()
        yield made.objects


def parts(store: GitStore) -> list[tuple[int, int]]:
    """Return the numbers of sessions and of entries of each part, in ascending order."""
    found = store_parts.divide(store.git_dir, store.refs(refs.SESSIONS), store.refs(refs.ACTIVE))
    return sorted((len({refs.session_of(name) for name in part.tips}), len(part.oids())) for part in found)


def told(store: GitStore, git_dir: Path | None) -> list[tuple[str, str, str]]:
    found = entry_walk.verify(store, git_dir=git_dir, notices=True)
    return sorted((one.where, one.what, one.ref) for one in [*found.problems, *(found.notices or ())])


def test_sessions_with_a_common_root_are_in_one_part(store: GitStore) -> None:
    assert parts(store) == [(1, 3), (1, 3), (2, 7)]


def test_small_parts_are_checked_together(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_parts, "ENTRIES_MIN", 100)
    assert parts(store) == [(4, 13)]


def test_a_small_store_is_one_part(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_parts, "_INDEX_BYTES_MIN", 1 << 20)
    [part] = store_parts.divide(store.git_dir, store.refs(refs.SESSIONS), {})
    assert part.entries is None


def test_a_check_in_parts_counts_each_entry_once(store: GitStore) -> None:
    found = entry_walk.verify(store, git_dir=store.git_dir, notices=True)
    assert (found.checked, found.problems, found.notices, found.whole) == (13, [], [], True)


def test_a_session_that_is_no_fork_is_found_in_parts(store: GitStore) -> None:
    name, tip = next((name, tip) for name, tip in store.refs(refs.SESSIONS).items() if refs.is_session_ref(name))
    with store.transaction() as tx:
        tx.move(refs.leaf("20260101-aaaaaaaaaaaaaaaa"), tip, expected=None)
    store.flush()
    assert any("is not a fork of it" in what for _, what, _ in told(store, store.git_dir)), name
    assert told(store, store.git_dir) == told(store, None)


def test_an_active_ref_of_no_session_is_found_in_parts(store: GitStore) -> None:
    with store.transaction() as tx:
        tx.move(refs.active("20260101-aaaaaaaaaaaaaaaa"), "ref: refs/heads/none", expected=None)
    store.flush()
    assert len(told(store, store.git_dir)) == 1
    assert told(store, store.git_dir) == told(store, None)


def test_a_store_that_git_lists_incompletely_is_checked_as_a_whole(store: GitStore) -> None:
    """git stops at the commits in the file ``shallow``, but the check does not."""
    tips = store.refs(refs.SESSIONS).values()
    (store.git_dir / "shallow").write_text("".join(f"{oid}\n" for oid in sorted(tips)))
    assert len(parts(store)) == 4  # the session and its fork are separate
    found = entry_walk.verify(store, git_dir=store.git_dir)
    assert (found.checked, found.problems) == (13, [])


def test_a_store_without_a_commit_is_checked_as_a_whole(store: GitStore) -> None:
    path = store.git_dir / refs.leaf("20260101-aaaaaaaaaaaaaaaa")
    path.parent.mkdir(parents=True)
    path.write_text(f"{'1' * 40}\n")
    assert len(parts(store)) == 1
    assert told(store, store.git_dir) == told(store, None) != []


def test_an_empty_store_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_parts, "_INDEX_BYTES_MIN", 0)
    with Store.create(tmp_path / "empty.git") as made:
        assert told(made.objects, made.objects.git_dir) == []
