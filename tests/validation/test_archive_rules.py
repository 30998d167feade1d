"""The validation of the archive's commits, which reads only changed files, agrees with the definition of a commit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import pytest
from raw import git

from gitsession.archive import archive_set
from gitsession.archive.archive_set import Archive
from gitsession.git.objects import encode_tree
from gitsession.store import refs
from gitsession.validation import set_rules
from gitsession.validation.quarantine_reader import ARCHIVES, Deadline, GitReader, Limits, Proposed

SIDS = [f"2026{month:02}01-{letter * 13}" for month in (1, 2, 3) for letter in "ab"]
TIPS = [f"{number:040x}" for number in range(1, 7)]


class Made(NamedTuple):
    """A commit of the archive, and whether it and its parents follow the definition."""

    oid: str
    archive: Archive
    is_valid: bool


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
        said = self.changed(base)
        new = [end for sid, ends in said.ends.items() for _, end in ends - base.of(sid)]
        tips = [*dict.fromkeys(tip for tip in new if not self.happens(0.1))]
        tips += [self.chance.choice(TIPS)] if self.happens(0.15) else []
        tree, files = self.tree(said)
        length = len(said) + self.happens(0.05)
        data = archive_set.encode(tree, length, [parent.oid for parent in parents], 1000 + len(self.commits), tips)
        known = {end for parent in parents for ends in parent.archive.ends.values() for _, end in ends}
        listed = {end for ends in said.ends.values() for _, end in ends}
        is_valid = (
            all(parent.is_valid and parent.archive <= said for parent in parents)
            and {*new} <= {*tips} | known
            and {*tips} <= listed
            and length == len(said)
            and files == archive_set.encode_files(said)
        )
        self.commits.append(Made(self.put("commit", data), said, is_valid))

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

    def tree(self, said: Archive) -> tuple[str, dict[str, bytes]]:
        """Write the tree of an archive, sometimes with a row that is elsewhere or twice; return it and its files."""
        files = archive_set.encode_files(said)
        for name in list(files):
            if self.happens(0.03):
                files["202604.tsv"] = files.pop(name)
            elif self.happens(0.03):
                files[name] += files[name].splitlines(keepends=True)[0]
        rows = {name: ("100644", self.put("blob", data)) for name, data in files.items()}
        return self.put("tree", encode_tree(rows)), files


@pytest.fixture(params=range(6))
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "r.git", random.Random(request.param))
    while len(made.commits) < 40:
        made.commit()
    return made


def test_validation_agrees_with_the_definition(repository: Repository) -> None:
    kinds = [commit.is_valid for commit in repository.commits]
    assert 8 < sum(kinds) < 36
    valid = [commit for commit in repository.commits if commit.is_valid]
    for commit in repository.commits:
        for known in (None, repository.chance.choice(valid)):
            by_name = {} if known is None else {ARCHIVES[1]: known.oid}
            with GitReader(repository.path, by_name) as reader:
                move = Proposed(refs.ARCHIVE, None, commit.oid)
                fault, tips = set_rules.validate_archive(reader, move, Limits(), Deadline(60))
            assert (fault is None) == commit.is_valid, fault
            before = Archive() if known is None else known.archive
            new = {(sid, end) for sid, ends in commit.archive.ends.items() for end in ends - before.of(sid)}
            assert fault or {(refs.session_of(tip.ref), ("main", tip.new)) for tip in tips} == new


def test_known_commit_is_continued(repository: Repository) -> None:
    """The refusal of a commit that does not continue the archive of the repository."""
    valid = [commit for commit in repository.commits if commit.is_valid]
    pairs = [(one, other) for one in valid for other in valid if one.oid != other.oid]
    for old, new in pairs[:100]:
        with GitReader(repository.path, {refs.ARCHIVE: old.oid}) as reader:
            move = Proposed(refs.ARCHIVE, old.oid, new.oid)
            fault, _ = set_rules.validate_archive(reader, move, Limits(), Deadline(60))
            is_descendant = old.oid in archive_set.SET.commits(reader, new.oid)
        assert (fault.rule if fault else "") == ("" if is_descendant else "rewind")


def test_time_and_number_of_commits_are_limited(repository: Repository) -> None:
    new = next(commit for commit in repository.commits if commit.is_valid)
    with GitReader(repository.path, {}) as reader:
        move = Proposed(refs.ARCHIVE, None, new.oid)
        fault, _ = set_rules.validate_archive(reader, move, Limits(), Deadline(-1))
        assert fault is not None and fault.rule == "limit"
        fault, _ = set_rules.validate_archive(reader, move, Limits(entries=0), Deadline(60))
        assert fault is not None and "more than 0 new commits" in fault.what
