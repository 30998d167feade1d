"""Tests of two diverged files with one session id: they become two sessions, and each export is byte-identical."""

from __future__ import annotations

from pathlib import Path

from builders import Clock, header, joined, pi_file, slot, talk

from gitsession import Store

ONE = pi_file(*talk("a", "b", "c"), cwd="/one")
TWO = joined(header("s1", cwd="/two"), *talk("a", "b", "d"))


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def take(store: Store, path: Path) -> str:
    [done] = store.import_file(path)
    return done.session


def test_each_file_is_exported_and_their_lineage_is_known(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        one = take(store, put(tmp_path / "one/x.jsonl", ONE))
        two = take(store, put(tmp_path / "two/x.jsonl", TWO))
        assert one != two
        assert (store.export(one).data, store.export(two).data) == (ONE, TWO)
        assert {row.sid: row.continues for row in store.sessions()} == {one: None, two: one}
        assert (take(store, tmp_path / "one/x.jsonl"), take(store, tmp_path / "two/x.jsonl")) == (one, two)
        assert list(store.verify().problems) == []


def test_both_continue_in_any_order_and_without_a_catalog(tmp_path: Path) -> None:
    files = put(tmp_path / "one/x.jsonl", ONE), put(tmp_path / "two/x.jsonl", TWO)
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        one, two = (take(store, file) for file in files)
    grown = ONE + joined(*talk("e", after="c")), TWO + joined(*talk("f", after="d"))
    for file, data in zip(files, grown, strict=True):
        file.write_bytes(data)
    (tmp_path / "s.git/gitsession/index.db").unlink()
    with Store.open(tmp_path / "s.git", clock=Clock()) as store:
        assert take(store, files[1]) == two
        assert take(store, files[0]) == one
        assert [store.export(sid).data for sid in (one, two)] == list(grown)
        assert len(store.sessions()) == 2


def test_the_session_id_of_a_second_file_is_the_same_in_every_store(tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        with Store.create(tmp_path / f"{name}.git", clock=Clock()) as store:
            take(store, put(tmp_path / name / "one/x.jsonl", ONE))
            found.append(take(store, put(tmp_path / name / "two/x.jsonl", TWO)))
    assert found[0] == found[1]


def test_a_file_that_was_rewritten_or_moved_is_the_same_session(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        file = put(tmp_path / "one/x.jsonl", ONE)
        one = take(store, file)
        file.write_bytes(TWO)
        assert take(store, file) == one
        moved = tmp_path / "other.jsonl"
        file.rename(moved)
        moved.write_bytes(ONE)
        assert take(store, moved) == one
        assert store.export(one).data == ONE


def test_copy_that_continued_alone_is_the_same_session(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        one = take(store, put(tmp_path / "one/x.jsonl", ONE))
        more = ONE + joined(*talk("d", after="c"))
        assert take(store, put(tmp_path / "two/x.jsonl", more)) == one


def test_copy_by_omp_of_a_file_of_pi_is_a_separate_session(tmp_path: Path) -> None:
    theirs = joined(slot("T"), header("s1", cwd="/one"), *talk("a", "b", "d"))
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        one = take(store, put(tmp_path / "one/x.jsonl", ONE))
        two = take(store, put(tmp_path / "two/x.jsonl", theirs))
        assert (store.export(one).data, store.export(two).data) == (ONE, theirs)


def test_second_file_of_a_purged_session_is_not_imported_again(tmp_path: Path) -> None:
    with Store.create(tmp_path / "s.git", clock=Clock()) as store:
        one = take(store, put(tmp_path / "one/x.jsonl", ONE))
        two = take(store, put(tmp_path / "two/x.jsonl", TWO))
        store.purges.apply(store.purges.plan(two))
        [done] = store.import_file(tmp_path / "two/x.jsonl")
        assert done.is_purged and done.session == two
        assert store.export(one).data == ONE
        assert [row.sid for row in store.sessions()] == [one]
