"""Tests of archived sessions in use: maintenance archives old sessions, and an access restores them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from builders import assert_clean
from raw import git
from remotes import hub

from gitsession import Ambiguous, Message, NotFound, Refused, Session, Store
from gitsession.api.opened import OpenStore
from gitsession.archive import archive_set, archiving
from gitsession.cli import app as command_line
from gitsession.cli import exits
from gitsession.index.catalogue import short_sid
from gitsession.store import refs
from gitsession.store.git_store import GitStore

DAY_MS = 86_400_000
START_MS = 1_780_000_000_000


class Days:
    """A clock that a test advances by whole days."""

    def __init__(self) -> None:
        self.at_ms = START_MS

    def __call__(self) -> int:
        self.at_ms += 1
        return self.at_ms

    def advance(self, days: int) -> None:
        self.at_ms += days * DAY_MS


@pytest.fixture
def days() -> Days:
    return Days()


@pytest.fixture
def store(tmp_path: Path, days: Days):
    Store.create(tmp_path / "store.git").close()
    with Store.open(tmp_path / "store.git", clock=days) as opened:
        yield opened


def begun(store: Store, *words: str) -> Session:
    session = store.new_session(agent="me", cwd="/work")
    for text in words:
        session.append(Message.user(text))
    return session


def archive_after(store: Store, value: str) -> None:
    subprocess.run(
        ["git", f"--git-dir={store.objects.git_dir}", "config", "gitsession.archiveAfter", value], check=True
    )


def texts(session: Session) -> list[str]:
    return [node.subject.partition(": ")[2] for node in session.history()[1:]]


def live(store: Store) -> set[str]:
    return {row.sid for row in store.sessions()}


# ---- age


def test_maintenance_archives_only_sessions_that_are_older_than_the_setting(store: Store, days: Days) -> None:
    archive_after(store, "90d")
    old = begun(store, "old").id
    days.advance(60)
    young = begun(store, "young").id
    days.advance(31)
    assert store.maintain().archived == (old,)
    assert live(store) == {young}
    assert [one.sid for one in store.archive.list()] == [old]
    assert store.maintain().archived == ()
    assert_clean(store.objects)


def test_maintenance_archives_nothing_by_default(store: Store, days: Days) -> None:
    old = begun(store, "old").id
    days.advance(9999)
    assert store.maintain().archived == ()
    assert live(store) == {old}


@pytest.mark.parametrize("value", ["90", "0d", "soon", "-1d", "99999999d"])
def test_invalid_age_archives_nothing_and_is_reported(store: Store, value: str) -> None:
    begun(store, "old")
    archive_after(store, value)
    with pytest.raises(Refused, match=r"invalid value of gitsession\.archiveAfter"):
        store.maintain()


def test_restored_session_is_archived_again_only_after_new_entries(store: Store, days: Days) -> None:
    archive_after(store, "4w")
    old = begun(store, "old").id
    days.advance(29)
    assert store.maintain().archived == (old,)
    session = store.session(old)
    days.advance(100)
    assert store.maintain().archived == ()
    session.label("leaf", "keep")
    session.rename("a title")
    assert store.maintain().archived == ()
    session.append(Message.user("more"))
    assert store.maintain().archived == ()
    days.advance(29)
    assert store.maintain().archived == (old,)
    assert texts(store.session(old)) == ["old", "more"]


@pytest.mark.parametrize("change", ["appends", "archives", "removes"])
def test_session_that_another_process_changes_is_left_alone(store: Store, days: Days, monkeypatch, change) -> None:
    archive_after(store, "90d")
    sids = [begun(store, "old").id, begun(store, "old, too").id]
    days.advance(91)
    select_old = archiving.select_old

    def interrupted(*arguments) -> list[str]:
        found = select_old(*arguments)
        with Store.open(store.objects.git_dir, clock=days) as other:
            if change == "appends":
                other.session(sids[0]).append(Message.user("more"))
            elif change == "archives":
                other.archive.put(sids[0])
            else:
                other.trash.put(sids[0])
        return found

    monkeypatch.setattr(archiving, "select_old", interrupted)
    assert store.maintain().archived == (sids[1],)
    assert live(store) == ({sids[0]} if change == "appends" else set())
    assert_clean(store.objects)


# ---- access

WRITES: dict[str, Callable[[Session], object]] = {
    "append": lambda session: session.append(Message.user("more")),
    "branch": lambda session: session.branch("side").append(Message.user("more")),
    "on": lambda session: session.on("main").append(Message.user("more")),
    "switch": lambda session: session.switch("main"),
    "fork": lambda session: session.fork(),
    "label": lambda session: session.label("leaf", "good"),
    "rename": lambda session: session.rename("A title"),
    "context": lambda session: session.context(),
    "leaf": lambda session: session.leaf,
    "history": lambda session: session.history(),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("is_held", [True, False], ids=["open handle", "by address"])
def test_use_of_an_archived_session_restores_it(store: Store, write, is_held: bool) -> None:
    session = begun(store, "one", "two")
    kept = begun(store, "kept").id
    store.archive.put(session.id)
    assert live(store) == {kept}
    write(session if is_held else store.session(session.id[3:]))
    assert {session.id, kept} <= live(store)
    assert texts(store.session(session.id))[:2] == ["one", "two"]
    assert store.archive.list() == []
    assert_clean(store.objects)


def _checkpoint_block(session: Session, work: Path) -> None:
    with session.files.checkpoint(work):
        pass


PARTS: dict[str, Callable[[Session, Path], object]] = {
    "tree": lambda session, _: session.tree(),
    "files.at": lambda session, _: session.files.at("leaf"),
    "files.diff": lambda session, _: session.files.diff("leaf~1"),
    "files.take_checkpoint": lambda session, work: session.files.take_checkpoint("before", work),
    "files.checkpoint": _checkpoint_block,
    "files.plan_rewind": lambda session, _: session.files.plan_rewind("leaf~1"),
    "compaction.plan": lambda session, _: session.compaction.plan(),
    "compaction.is_due": lambda session, _: session.compaction.is_due(1_000),
}


@pytest.mark.parametrize("use", PARTS.values(), ids=PARTS)
def test_use_of_a_part_of_an_open_handle_restores_the_session(store: Store, tmp_path: Path, use) -> None:
    (tmp_path / "work").mkdir()
    session = begun(store, "one", "two")
    store.archive.put(session.id)
    use(session, tmp_path / "work")
    assert [row.sid for row in store.sessions()] == [session.id]


def test_entries_of_a_restored_session_reach_the_other_store(tmp_path: Path, store: Store, days: Days) -> None:
    place = hub(tmp_path / "hub.git")
    git(place, "config", "receive.denyDeletes", "false")
    session = begun(store, "one")
    store.remotes.add("origin", str(place))
    store.remotes.sync()
    other, _ = Store.clone(str(place), tmp_path / "other.git", clock=days)
    with other:
        other.archive.put(session.id)
        other.remotes.sync()
        store.remotes.sync()
        assert live(store) == live(other) == set()
        session.append(Message.user("two"))
        store.remotes.sync()
        other.remotes.sync()
        assert live(store) == live(other) == {session.id}
        assert texts(other.session(session.id)) == ["one", "two"]


def test_short_or_ambiguous_address_restores_nothing(store: Store) -> None:
    one, other = begun(store, "one").id, begun(store, "two").id
    store.archive.put(one, other)
    date = one[:8]
    assert other.startswith(date)
    with pytest.raises(Ambiguous):
        store.session(date)
    for address in (short_sid(one)[:-1], "@", "me:1", "9" * 8):
        with pytest.raises(NotFound):
            store.session(address)
    assert live(store) == set()


def test_short_id_of_a_list_restores_its_session(store: Store) -> None:
    one, other = begun(store, "one").id, begun(store, "two").id
    store.archive.put(one, other)
    assert store.session(short_sid(one)).id == one
    assert live(store) == {one}


@pytest.mark.parametrize("number", [0, 1, 2, 5, 9, None])
def test_the_newest_archived_sessions_are_listed(store: Store, number: int | None) -> None:
    store.archive.put(*(begun(store, f"session {at}").id for at in range(6)))
    newest = store.archive.list()
    assert store.archive.list(number) == newest[:number]


def test_read_only_store_restores_nothing(store: Store) -> None:
    sid = begun(store, "one").id
    store.archive.put(sid)
    store.flush()
    with Store(GitStore.open(store.objects.git_dir, read_only=True)) as reader, pytest.raises(NotFound):
        reader.session(sid)


def test_removed_session_is_not_restored(store: Store) -> None:
    session = begun(store, "one")
    store.trash.put(session.id)
    with pytest.raises(NotFound):
        session.append(Message.user("two"))
    assert live(store) == set()


def test_removed_session_that_another_store_archived_is_not_restored(tmp_path: Path, store: Store, days: Days) -> None:
    place = hub(tmp_path / "hub.git")
    session = begun(store, "one")
    store.remotes.add("origin", str(place))
    store.remotes.sync()
    store.trash.put(session.id)
    other, _ = Store.clone(str(place), tmp_path / "other.git", clock=days)
    with other:
        other.archive.put(session.id)
        other.remotes.sync()
    store.remotes.sync()
    with pytest.raises(NotFound):
        session.append(Message.user("two"))
    with pytest.raises(NotFound):
        store.session(session.id)
    assert live(store) == set()
    assert [one.sid for one in store.trash.list()] == [session.id]


@pytest.mark.parametrize("is_held", [True, False], ids=["open handle", "by address"])
def test_session_that_another_process_restores_meanwhile_is_found(
    store: Store, days: Days, monkeypatch, is_held: bool
) -> None:
    session = begun(store, "one")
    store.archive.put(session.id)
    restore = OpenStore.restore
    archived = OpenStore._archived

    def restore_in_other() -> None:
        with Store.open(store.objects.git_dir, clock=days) as other:
            if other.archive.list():
                other.archive.restore(session.id)

    monkeypatch.setattr(OpenStore, "restore", lambda self, sid: [restore_in_other(), restore(self, sid)][1])
    monkeypatch.setattr(OpenStore, "_archived", lambda self, part: [restore_in_other(), archived(self, part)][1])
    (session if is_held else store.session(session.id)).append(Message.user("two"))
    assert texts(store.session(session.id)) == ["one", "two"]


def test_months_without_the_session_are_not_read(store: Store, days: Days, monkeypatch) -> None:
    first = begun(store, "one")
    days.advance(40)
    second = begun(store, "two")
    store.archive.put(first.id, second.id)
    names: list[str] = []
    read_file = archive_set.read_file
    monkeypatch.setattr(archive_set, "read_file", lambda *given: names.append(given[1]) or read_file(*given))
    assert store._opened.restore("20990101-aaaaaaaaaaaaa") is False
    assert names == []


# ---- commands


@pytest.fixture
def run(store: Store, monkeypatch, capsys) -> Callable[..., str]:
    monkeypatch.setenv("GITSESSION_DIR", str(store.objects.git_dir))

    def call(*arguments: str, code: int = 0) -> str:
        assert command_line.run([*arguments]) == code
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("command", ["log", "tree", "context", "branch"])
def test_command_that_names_an_archived_session_restores_it(store: Store, run, command: str) -> None:
    sid = begun(store, "a question").id
    store.archive.put(sid)
    assert "main" in run(command, sid) if command == "branch" else "a question" in run(command, sid)
    assert live(store) == {sid}


def test_plan_of_a_purge_restores_nothing(store: Store, run) -> None:
    sid = begun(store, "a question").id
    store.archive.put(sid)
    run("purge", sid, "--dry-run")
    assert [one.sid for one in store.archive.list()] == [sid]


def test_archive_does_not_restore_an_archived_session(store: Store, run) -> None:
    sid = begun(store, "a question").id
    store.archive.put(sid)
    tip = store.objects.ref(refs.ARCHIVE)
    for options in ((), ("--dry-run",)):
        run("archive", sid, *options, code=exits.NOT_FOUND)
        assert store.objects.ref(refs.ARCHIVE) == tip


def test_maintain_lists_what_it_archived(store: Store, run, days: Days) -> None:
    archive_after(store, "1d")
    sid = begun(store, "old").id  # its time is that of the test's clock, years ago for the command
    assert json.loads(run("maintain", "--json"))["archived"] == [sid]


def test_restore_reports_that_several_archived_sessions_match(store: Store, run, capsys) -> None:
    sids = [begun(store, text).id for text in ("one", "two")]
    store.archive.put(*sids)
    common = sids[0][:8]
    assert command_line.run(["restore", common]) == 3
    error = capsys.readouterr().err
    assert f"error: '{common}' matches 2 sessions in the archive" in error
    assert all(sid in error for sid in sids)


def test_restore_of_an_unknown_session_names_the_trash_and_the_archive(store: Store, run, capsys) -> None:
    assert command_line.run(["restore", "absent"]) == 3
    error = capsys.readouterr().err
    assert "error: no session 'absent' in the trash or the archive" in error
    assert "`gitsession ls --archived`" in error


def test_search_without_hits_reports_the_archived_sessions(store: Store, run, capsys) -> None:
    begun(store, "a question")
    store.archive.put(begun(store, "an older question").id)
    assert command_line.run(["search", "older"]) == 1
    assert "no entries found in 1 session (1 archived session not searched)" in capsys.readouterr().err


def test_address_that_matches_several_live_sessions_restores_no_archived_one(store: Store) -> None:
    sids = [begun(store, text).id for text in ("one", "two", "three")]
    store.archive.put(sids[0])
    with pytest.raises(Ambiguous, match="matches 2 sessions"):
        store.session(sids[0][:8])
    assert live(store) == {*sids[1:]}


def test_address_of_too_few_characters_hints_at_the_archive(store: Store, run, capsys) -> None:
    sid = begun(store, "a question").id
    store.archive.put(sid)
    assert command_line.run(["log", sid[:6]]) == 3
    assert "`gitsession ls --archived`" in capsys.readouterr().err
