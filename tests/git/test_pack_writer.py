"""Tests of written packs, checked by git: index-pack, verify-pack, fsck."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from raw import git

from gitsession.git import pack_writer, process
from gitsession.git.objects import encode_tree, oid_of
from gitsession.git.repository import VerifiedRepository
from gitsession.store.create import KEEP, create

SIZES = [0, 1, 15, 16, 64, 65, 127, 128, 2047, 2048, 70_000, 1 << 20]


@pytest.fixture
def git_dir(tmp_path: Path) -> Path:
    create(tmp_path / "store.git")
    return tmp_path / "store.git"


def write(git_dir: Path, objects) -> Path:
    named = {oid_of(*each): each for each in objects}
    name = pack_writer.write_pack(git_dir / "objects", named, git_dir / KEEP)
    return git_dir / "objects" / "pack" / name


def some_objects():
    chance = random.Random(1)
    blobs = [("blob", chance.randbytes(size)) for size in SIZES] + [("blob", b"a" * size) for size in SIZES[2:]]
    return [*blobs, ("tree", encode_tree({"a": ("100644", oid_of(*blobs[0]))}))]


def test_git_finds_every_object_in_a_written_pack(git_dir):
    written = some_objects()
    path = write(git_dir, written)
    listed = git(git_dir, "verify-pack", "-v", f"{path}.pack")
    assert all(oid_of(*each) in listed for each in written)
    git(git_dir, "fsck", "--strict", "--full")


def test_our_index_is_the_one_git_would_have_written(git_dir, tmp_path):
    path = write(git_dir, some_objects())
    git(git_dir, "index-pack", "-o", str(tmp_path / "by-git.idx"), f"{path}.pack")
    assert (tmp_path / "by-git.idx").read_bytes() == Path(f"{path}.idx").read_bytes()


def test_objects_are_read_through_the_verified_repository(git_dir):
    written = some_objects()
    door = VerifiedRepository(git_dir)
    assert not door.contains(oid_of(*written[0]))
    write(git_dir, written)
    assert [door.read(oid_of(*each)) for each in written] == written


def test_a_pack_survives_a_repack_until_it_is_released(git_dir):
    blob = ("blob", b"not reachable yet")
    write(git_dir, [blob])
    git(git_dir, "repack", "-a", "-d", "-q")
    assert VerifiedRepository(git_dir).read(oid_of(*blob)) == blob
    assert pack_writer.release_packs(git_dir / "objects") == 1
    git(git_dir, "repack", "-a", "-d", "-q")
    assert not VerifiedRepository(git_dir).contains(oid_of(*blob))


def test_only_own_keep_files_are_removed(git_dir):
    path = write(git_dir, [("blob", b"one")])
    for text in ("", "the user wants this one"):
        Path(f"{path}-{len(text)}.keep").write_text(text)
    assert pack_writer.release_packs(git_dir / "objects") == 1
    assert len(list((git_dir / "objects" / "pack").glob("*.keep"))) == 2


def test_keep_file_is_written_even_if_its_link_target_is_missing(git_dir):
    (git_dir / KEEP).unlink()
    path = write(git_dir, [("blob", b"one")])
    assert Path(f"{path}.keep").read_text().startswith("gitsession")


def test_writing_the_same_pack_again_changes_nothing(git_dir):
    assert write(git_dir, some_objects()) == write(git_dir, some_objects())
    git(git_dir, "fsck", "--strict", "--full")


def test_a_failed_write_leaves_no_temporary_file(git_dir, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    with pytest.raises(OSError, match="Input/output"):
        write(git_dir, [("blob", b"one")])
    assert not list((git_dir / "objects" / "pack").glob("tmp_*"))


def test_child_process_has_a_clean_environment(git_dir, monkeypatch, isolated_home):
    (isolated_home / ".gitconfig").write_text("[user]\nname = leaks\n")
    for name, value in {"GIT_DIR": "/nowhere", "GIT_CONFIG_COUNT": "1", "GIT_TRACE": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    assert process.run(git_dir, "config", "user.name", accept=(0, 1)).out == b""
    assert process.run(git_dir, "config", "user.name", user_config=True).out == b"leaks\n"
    assert process.version() >= (2, 39)


def test_a_hostile_store_runs_no_command(git_dir, tmp_path):
    canary = tmp_path / "canary"
    (git_dir / "hooks").mkdir()
    for name in ("reference-transaction", "post-index-change", "pre-auto-gc"):
        (git_dir / "hooks" / name).write_text(f"#!/bin/sh\ntouch {canary}\n")
        (git_dir / "hooks" / name).chmod(0o755)
    git(git_dir, "config", "core.hooksPath", str(git_dir / "hooks"))
    git(git_dir, "config", "core.fsmonitor", f"touch {canary}")
    process.run(git_dir, "update-ref", "refs/heads/other", "refs/heads/main")
    process.run(git_dir, "repack", "-d", "-q", "--geometric=2")
    assert not canary.exists()
