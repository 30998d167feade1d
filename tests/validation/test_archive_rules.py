"""The validation of the archive's commits, which reads only changed files, agrees with the definition of a commit."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from raw import git

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.git.objects import encode_tree
from gitsession.store import refs
from gitsession.validation import set_rules
from gitsession.validation.quarantine_reader import LOCAL_ARCHIVE, Deadline, Fault, GitReader, Limits, Proposed

SIDS = [f"2026{month:02}01-{letter * 13}" for month in (1, 2, 3) for letter in "ab"]
LIMITS = Limits()
TIPS = [f"{number:040x}" for number in range(1, 7)]


class Made(NamedTuple):
    """A commit of the archive, and whether it and its parents follow the definition."""

    oid: str
    archive: Archive
    is_valid: bool
    ancestors: frozenset[str]
    """The commit and the commits of the archive that it continues."""


class Repository:
    def __init__(self, path: Path, chance: random.Random) -> None:
        git(path, "init", "-q", "--bare")
        self.path, self.chance, self.commits = path, chance, list[Made]()

    def put(self, kind: str, data: bytes) -> str:
        return git(self.path, "hash-object", "-w", "--literally", "-t", kind, "--stdin", stdin=data)

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    def commit(self) -> None:
        """Write a commit that is often valid, and otherwise violates one or more rules."""
        usual = [commit for commit in self.commits if commit.is_valid or self.happens(0.1)]
        parents = self.chance.sample(usual, min(len(usual), self.chance.choice([0, 1, 1, 2, 2])))
        base = Archive()
        for parent in parents:
            base = base | parent.archive
        archive = self.changed(base)
        new = [end for sid, ends in archive.ends.items() for _, end in ends - base.of(sid)]
        tips = [*dict.fromkeys(tip for tip in new if not self.happens(0.1))]
        tips += [self.chance.choice(TIPS)] if self.happens(0.15) else []
        tree, files = self.tree(archive)
        length = len(archive) + self.happens(0.05)
        data = archive_set.encode(tree, length, [parent.oid for parent in parents], 1000 + len(self.commits), tips)
        known = {end for parent in parents for ends in parent.archive.ends.values() for _, end in ends}
        listed = {end for ends in archive.ends.values() for _, end in ends}
        is_valid = (
            all(parent.is_valid and parent.archive <= archive for parent in parents)
            and {*new} <= {*tips} | known
            and {*tips} <= listed
            and length == len(archive)
            and files == archive_set.encode_files(archive)
        )
        oid = self.put("commit", data)
        self.commits.append(Made(oid, archive, is_valid, frozenset({oid}).union(*(each.ancestors for each in parents))))

    def written(self, archive: Archive, parents: Sequence[str] = (), tips: Sequence[str] = ()) -> str:
        """Write a commit of the archive with these parents and tips."""
        tree = self.tree_of(archive_set.encode_files(archive))
        return self.put("commit", archive_set.encode(tree, len(archive), parents, 1000, tips))

    def changed(self, base: Archive) -> Archive:
        turns, ends = dict(base.turns), dict(base.ends)
        for sid in self.chance.sample(SIDS, self.chance.choice([0, 1, 2])):
            turns[sid] = turns.get(sid, 0) + 1
            found = {("main", tip) for tip in self.chance.sample(TIPS, self.chance.randint(0, 2))}
            ends[sid] = ends.get(sid, frozenset()) | found
        if turns and self.happens(0.2):
            sid = self.chance.choice(sorted(turns))
            fewer = ends.get(sid, frozenset()) - {self.chance.choice([("main", tip) for tip in TIPS])}
            turns[sid], ends[sid] = max(1, turns[sid] - self.happens(0.5)), fewer
        if turns and self.happens(0.1):
            sid = self.chance.choice(sorted(turns))
            del turns[sid]
            ends.pop(sid, None)
        return Archive(turns, ends)

    def tree(self, archive: Archive) -> tuple[str, dict[str, bytes]]:
        """Write the tree of an archive, sometimes with a row that is elsewhere or twice; return it and its files."""
        files = archive_set.encode_files(archive)
        for name in list(files):
            if self.happens(0.03):
                files["202604.tsv"] = files.pop(name)
            elif self.happens(0.03):
                files[name] += files[name].splitlines(keepends=True)[0]
        return self.tree_of(files), files

    def tree_of(self, files: Mapping[str, bytes]) -> str:
        rows = {name: ("100644", self.put("blob", data)) for name, data in files.items()}
        return self.put("tree", encode_tree(rows))


@pytest.fixture
def empty(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "r.git", random.Random(0))


@pytest.fixture(params=range(6))
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "r.git", random.Random(request.param))
    while len(made.commits) < 40:
        made.commit()
    return made


def validated(
    repository: Repository, new: str, old: str | None = None, local: str | None = None, limits: Limits = LIMITS
) -> tuple[Fault | None, list[Proposed]]:
    """Validate a move of the archive's ref. ``local``: the store's own archive during a fetch."""
    known = {refs.ARCHIVE: old, LOCAL_ARCHIVE: local}
    with GitReader(repository.path, {name: oid for name, oid in known.items() if oid is not None}) as reader:
        return set_rules.validate_archive(reader, Proposed(refs.ARCHIVE, old, new), limits, Deadline(limits.seconds))


def test_validation_agrees_with_the_definition(repository: Repository) -> None:
    valid = [commit for commit in repository.commits if commit.is_valid]
    assert 8 < len(valid) < 36
    nothing = Made("", Archive(), True, frozenset())
    for commit in repository.commits:
        for old in (nothing, repository.chance.choice(valid), repository.chance.choice(valid)):
            local = repository.chance.choice([nothing, *valid])
            fault, tips = validated(repository, commit.oid, old.oid or None, local.oid or None)
            is_continued = old is nothing or (old.oid in commit.ancestors and old.oid != commit.oid)
            assert (fault is None) == (commit.is_valid and is_continued), fault
            assert not commit.is_valid or is_continued or fault.rule == "rewind"
            known = old.archive | local.archive
            new = {(sid, end) for sid, ends in commit.archive.ends.items() for end in ends - known.of(sid)}
            assert fault or {(refs.session_of(tip.ref), ("main", tip.new)) for tip in tips} == new


def test_union_has_the_elements_of_both_parents(empty: Repository) -> None:
    one, other = (empty.written(Archive({sid: 1})) for sid in SIDS[:2])
    for parents in ([one, other], [other, one]):
        for sid in SIDS[:2]:
            fault, _ = validated(empty, empty.written(Archive({sid: 1}), parents))
            assert fault is not None and "lacks elements of its parents" in fault.what
        assert validated(empty, empty.written(Archive(dict.fromkeys(SIDS[:2], 1)), parents)) == (None, [])


def test_known_archive_that_is_missing_is_ignored(empty: Repository) -> None:
    assert validated(empty, empty.written(Archive({SIDS[0]: 1})), local=TIPS[0]) == (None, [])


def test_known_archive_is_not_validated_again(empty: Repository) -> None:
    """Its commit may have more tips than a new one."""
    tips = [f"{number:040x}" for number in range(1, 1402)]
    known = empty.written(Archive({SIDS[0]: 1}, {SIDS[0]: frozenset(("main", tip) for tip in tips)}), tips=tips)
    assert validated(empty, empty.written(Archive({SIDS[1]: 1})), local=known) == (None, [])
    merged = Archive({SIDS[0]: 1, SIDS[1]: 1}, {SIDS[0]: frozenset(("main", tip) for tip in tips)})
    assert validated(empty, empty.written(merged, [known]), local=empty.written(merged, [known])) == (None, [])
    other = Archive({SIDS[0]: 1, SIDS[2]: 1}, merged.ends)
    assert validated(empty, empty.written(other, [known]), local=empty.written(merged, [known])) == (None, [])


def test_commits_that_the_known_archive_continues_are_not_validated_again(
    empty: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync after an archiving fetches the former commit of the own archive."""
    oids: list[str] = []
    for turn in range(1, 9):
        oids.append(empty.written(Archive({SIDS[0]: turn}), oids[-1:]))
    seen: list[str] = []
    monkeypatch.setattr(set_rules._Walk, "_validate", lambda _, oid, *rest: seen.append(oid))
    assert validated(empty, oids[6], local=oids[7]) == (None, [])
    assert seen == [oids[6]]
    monkeypatch.undo()
    merged = empty.written(
        Archive({SIDS[0]: 8, SIDS[1]: 1}), [oids[5], empty.written(Archive({SIDS[0]: 8, SIDS[1]: 1}))]
    )
    monkeypatch.setattr(set_rules, "_COMMITS_MAX", 2)
    assert validated(empty, merged, local=oids[7], limits=Limits(entries=2)) == (None, [])


def test_time_size_and_number_of_commits_are_limited(empty: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_rules, "_COMMITS_MAX", 1)
    first = empty.written(Archive({SIDS[0]: 1}))
    new = empty.written(Archive({SIDS[0]: 2}), [first])
    assert validated(empty, new, limits=Limits(entries=2)) == (None, [])
    assert validated(empty, new, old=first, limits=Limits(entries=1)) == (None, [])
    for limits, rule, what in (
        (Limits(seconds=-1), "limit", "took longer"),
        (Limits(entries=1), "limit", "more than 1 new commits"),
        (Limits(whole_bytes=10), "archive", "more than 10 bytes"),
    ):
        fault, _ = validated(empty, new, limits=limits)
        assert fault is not None and fault.rule == rule and what in fault.what
    tips = [f"{number:040x}" for number in range(1, 1002)]
    crowd = Archive({SIDS[0]: 1}, {SIDS[0]: frozenset(("main", tip) for tip in tips)})
    fault, _ = validated(empty, empty.written(crowd, tips=tips))
    assert fault is not None and "more than 1,000 tips in one commit" in fault.what
    assert validated(empty, empty.written(crowd, tips=tips[1:]))[0] != fault
