"""Tests of P24: lost objects of codex threads with several files, and of forks, are rebuilt from the files of codex."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from builders import Clock, bring, pi_file, talk
from codex_files import THREAD, import_files
from codex_threads import FILES, FORK, SEGMENTS, name

from gitsession.api import Store
from gitsession.cli import exits
from gitsession.cli.app import run
from gitsession.repair import donors
from gitsession.store.memory import MemoryStore


class Case:
    """A store with a thread of four files and a fork of the last, all of whose objects are lost."""

    def __init__(self, place: Path, folders: dict[str, str]) -> None:
        """Import ``FILES``.

        Args:
            place: Folder of the test.
            folders: Folder of a file by name. The default is ".".
        """
        self.path = place / "store.git"
        self.files = {file: place / folders.get(file, ".") / f"{file}.jsonl" for file in FILES}
        for file, data in FILES.items():
            self.files[file].parent.mkdir(parents=True, exist_ok=True)
            self.files[file].write_bytes(data)
        with Store.create(self.path, clock=Clock()) as store:
            for folder in dict.fromkeys(file.parent for file in self.files.values()):
                import_files(store, [file for file in self.files.values() if file.parent == folder])
            self.sids = {row.source_id: row.sid for row in store.sessions()}
            store.flush()
        assert self.sids.keys() == {THREAD, FORK}
        self.before = self.objects()
        for pack in self.path.glob("objects/pack/pack-*"):
            pack.unlink()

    def objects(self) -> set[str]:
        """Return the objects that branches reach. The operation log is not in an agent's file."""
        words = ["git", f"--git-dir={self.path}", "rev-list", "--objects", "--branches"]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        return {line.split()[0] for line in done.stdout.splitlines()}

    def assert_restored(self) -> None:
        assert self.objects() == self.before
        with Store.open(self.path) as store:
            assert store.verify().problems == []


FOLDERS = {
    "one folder": {},
    "folders of days": {file: f"sessions/2026/11/{day}" for day, file in enumerate(FILES, 10)},
    "a fork in another folder": {name(FORK): "other"},
}


@pytest.mark.promise("P24")
@pytest.mark.parametrize("folders", FOLDERS.values(), ids=FOLDERS)
def test_files_of_a_thread_and_its_forks_are_rebuilt(tmp_path: Path, folders: dict[str, str]) -> None:
    case = Case(tmp_path, folders)
    with Store.open(case.path, damaged=True) as store:
        done = store.repair()
        assert done.is_whole, done.plan.lost
        assert done.plan.unread == []
    case.assert_restored()


def test_named_copy_brings_the_files_beside_it(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    copies = tmp_path / "copies"
    copies.mkdir()
    for file in case.files.values():
        file.rename(copies / file.name)
    with Store.open(case.path, damaged=True) as store:
        done = store.repair([copies / f"{name(FORK)}.jsonl"])
        rebuilt = {lost.ref for lost in done.plan.lost}
        assert not any(case.sids[FORK] in ref for ref in rebuilt)
        assert not any(Path(file.path).parent == copies for file in done.plan.unread)
        done = store.repair([copies / f"{file}.jsonl" for file in FILES])
        assert not [lost for lost in done.plan.lost if not lost.ref.endswith("/meta")]


def test_fork_without_its_base_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    case = Case(tmp_path, {})
    case.files[name(THREAD, SEGMENTS[2])].unlink()
    monkeypatch.setenv("GITSESSION_DIR", str(case.path))
    assert run(["repair", "--dry-run", "--json"]) == exits.INTEGRITY
    unread = {Path(each["file"]).stem: each["what"] for each in json.loads(capfd.readouterr().out)["unread"]}
    assert unread == {
        name(THREAD, SEGMENTS[2]): "No such file or directory",
        name(FORK): f"the file continues session '{SEGMENTS[2]}', which is not in this store",
    }
    assert run(["repair"]) == exits.INTEGRITY
    shown = capfd.readouterr().out
    assert f"cannot rebuild from '{case.files[name(FORK)]}': {unread[name(FORK)]}" in shown
    assert f"of {case.sids[FORK]}" in shown


def test_truncated_base_rebuilds_no_fork(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    base = case.files[name(THREAD, SEGMENTS[2])]
    base.write_bytes(b"".join(base.read_bytes().splitlines(keepends=True)[:3]))
    with Store.open(case.path, damaged=True) as store:
        done = store.repair()
        assert [(Path(each.path).stem, "is incomplete in this store" in each.what) for each in done.plan.unread] == [
            (name(FORK), True)
        ]
        assert not done.is_whole


def test_named_file_that_is_not_a_session_is_reported(tmp_path: Path) -> None:
    case = Case(tmp_path, {})
    (tmp_path / "notes.txt").write_text("no session")
    with Store.open(case.path, damaged=True) as store:
        [unread] = store.repair([tmp_path / "notes.txt"]).plan.unread
        assert unread.path == str(tmp_path / "notes.txt")
        assert unread.what.startswith("unrecognized session format")


def test_older_copy_of_a_file_is_imported_by_itself(tmp_path: Path) -> None:
    data, whole, rebuilt = pi_file(*talk("a", "b", "c")), MemoryStore(), donors.RebuiltObjects()
    older = b"".join(data.splitlines(keepends=True)[:-1])
    bring(whole, older)
    for file, content in {"1": data, "2": older}.items():
        (tmp_path / file).write_bytes(content)
    rebuilt.add([tmp_path / "1", tmp_path / "2"])
    assert [oid for oid in whole.oids() if rebuilt.read(oid, "") is None] == []


def test_missing_base_is_searched_once(tmp_path: Path) -> None:
    fork = tmp_path / f"{name(FORK)}.jsonl"
    fork.write_bytes(FILES[name(FORK)])
    asked: list[str] = []
    rebuilt = donors.RebuiltObjects(lambda waiting: asked.append(waiting.error.source_id) or [])
    for file in (fork, fork, tmp_path / "gone.jsonl"):
        rebuilt.add([file])
    assert asked == [SEGMENTS[2]]
    assert [Path(each.path).name for each in rebuilt.unread] == [fork.name, "gone.jsonl"]
