"""Test of the tests: break the package in one place at a time, and run the tests that must fail.

    python -m benchmarks.mutants [WORDS...]      all breaks, or those whose name contains one of the words

Each break is made in a copy of the checkout. CAUGHT: a named test failed. NOT CAUGHT: none failed, so a test is
missing. ERROR: the text of the break is no longer in the file, or its tests do not exist or fail without the break.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 240
ROUNDS = 3
"""Number of passes after which a break is reported as NOT CAUGHT. A test can miss a race once."""


@dataclass(frozen=True)
class Break:
    """Replacements of texts in ``file`` below gitsession/. ``tests`` are arguments for pytest."""

    name: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, ...]


def one(name: str, file: str, old: str, new: str, *tests: str) -> Break:
    return Break(name, file, ((old, new),), tests)


FSYNCS = "tests/store/test_store_processes.py::test_number_of_fsyncs"
LEAF = "tests/store/test_git_housekeeping.py::test_tip_reaches_whole_objects_and_never_moves_back"
STRANGER = "tests/git/test_ref_writer.py::test_foreign_lock_only_delays_its_own_ref"
KILLS = "tests/store/test_kills.py"
POWER = "tests/store/test_power_cuts.py"
FAILING = "tests/store/test_failing_disk.py"
RESTORE = "tests/workspace/test_restore.py"
HOSTILE = "tests/workspace/test_hostile_checkpoints.py"

SERVER = "tests/server/test_server.py"
GATE = "tests/sync/test_outgoing_secrets.py::test_own_push_holds_back_sessions_with_a_secret_and_sends_the_rest"

NO_HOOKS = "tests/sync/test_sync_without_hooks.py"

BREAKS = [
    # -- checks in parts
    one(
        "sessions that share entries are checked in different parts",
        "verify/store_parts.py",
        "            expected[parent] = _unite(expected.get(parent, group), group)",
        "            expected[parent] = group",
        "tests/verify/test_store_parts.py",
    ),
    one(
        "a part has other entries than git listed",
        "verify/entry_walk.py",
        "        if walk.nodes.keys() != set(oids):",
        "        if False:",
        "tests/verify/test_store_parts.py",
    ),
    # -- validation of received objects
    one(
        "objects reachable from any ref count as validated",
        "server/receive.py",
        "return _listed(git_dir, refs.SESSIONS, *others)",
        "return _listed(git_dir)",
        f"{SERVER}::test_unvalidated_data_is_validated_when_a_session_reaches_it",
    ),
    one(
        "a push into a store is validated without the pending entries",
        "server/receive.py",
        "            store.flush()\n    variables",
        "            pass\n    variables",
        f"{SERVER}::test_push_into_a_store_is_validated_against_its_pending_entries",
    ),
    one(
        "a new ref may point into a history that is not rewritten yet",
        "validation/validate.py",
        "if proposed.old is not None or existing is None or existing in seen:",
        "if existing is None or existing not in seen:",
        f"{SERVER}::test_new_ref_to_an_unrewritten_history_is_rejected",
    ),
    one(
        "the tombstone set may shrink",
        "validation/set_rules.py",
        "if move.old is not None and not tombstone_set.at(reader, move.old) <= new_set:",
        "if move.old is None and not new_set:",
        f"{SERVER}::test_tombstone_set_only_grows",
    ),
    one(
        "of two refs with one secret, the second is pushed",
        "sync/secret_scan.py",
        "found.items() if oid in new)",
        "found.items() if hit.ref == move.ref)",
        GATE,
    ),
    # -- purges by other stores
    one(
        "the histories of a remote without hooks are not rewritten",
        "sync/syncing.py",
        "rewritten = tombstone_sync.rewritten(\n"
        "        quarantine, read, merge.tombstones, fetched.tips, {} if merge.is_new else known\n    )",
        "rewritten = dict[str, Oid]()",
        f"{NO_HOOKS}::test_purge_reaches_a_forge_and_every_store_and_removes_nothing_else",
    ),
    one(
        "a push of a purge overwrites any value at the remote",
        "sync/transport.py",
        '[f"--force-with-lease={name}:{leases[ref]}" for ref, (_, name) in chunk.items() if ref in leases]',
        '["--force"] if leases else []',
        f"{NO_HOOKS}::test_entry_published_during_a_purge_is_not_overwritten",
    ),
    one(
        "unpublished entries are purged without a backup",
        "sync/tombstone_sync.py",
        "    if not lost:",
        "    if lost or True:",
        "tests/purge/test_unpublished_backup.py::test_session_imported_by_both_stores_is_set_aside_and_both_end_equal",
    ),
    one(
        "branches are merged before a purge",
        "sync/tombstone_sync.py",
        "moved = purging.apply(store).moved",
        "moved: tuple[str, ...] = ()",
        "tests/sync/test_simulation.py::test_a_purge_forks_no_line",
    ),
    one(
        "a tombstone contains the time of the purge",
        "sessions/tombstone.py",
        "at_ms=node.author_seconds * 1000,",
        "at_ms=node.author_seconds * 1000 + __import__('time').time_ns() % 1000000,",
        "tests/sync/test_simulation.py::test_a_purge_forks_no_line",
    ),
    one(
        "the refs of a session are pushed separately",
        "sync/transport.py",
        "groups.setdefault(refs.session_of(ref) or ref, []).append(ref)",
        "groups.setdefault(ref, []).append(ref)",
        "tests/sync/test_sync.py::test_refs_of_a_session_are_pushed_in_one_chunk",
    ),
    # -- acknowledgement
    one(
        "the journal is not synced",
        "store/journal.py",
        "                os.fdatasync(newest.fd)\n        except OSError:",
        "                pass\n        except OSError:",
        FSYNCS,
    ),
    one(
        "an append is acknowledged but not written",
        "store/journal.py",
        'write_all(newest.fd, b"".join((journal_frames.MAGIC, length, digest, payload)), newest.end)',
        "pass",
        "tests/store/test_store_processes.py::test_an_entry_of_another_process_is_seen_without_a_flush",
    ),
    one(
        "a failed record is not blanked",
        "store/journal.py",
        "            self._blank(newest)\n            raise",
        "            self._failed = True\n            raise",
        "tests/store/test_journal.py",
    ),
    one(
        "a file whose fsync failed is written again",
        "store/journal.py",
        "newest is None or newest.damaged or self._failed",
        "newest is None or newest.damaged",
        "tests/store/test_journal.py",
    ),
    Break(
        "records are not chained",
        "store/journal.py",
        (
            (
                "newest.last, newest.end, newest.digest = newest.end, end, digest",
                "newest.last, newest.end = newest.end, end",
            ),
            (
                "file.last, file.end, file.digest, file.unsure = file.end, end, digest, not locked",
                "file.last, file.end, file.unsure = file.end, end, not locked",
            ),
        ),
        ("tests/store/test_journal.py",),
    ),
    one(
        "the salt is always the same",
        "store/journal.py",
        "salt = os.urandom(journal_frames.SALT_BYTES)",
        "salt = bytes(journal_frames.SALT_BYTES)",
        "tests/store/test_journal.py",
    ),
    one(
        "a digest is not compared",
        "store/journal.py",
        "if hash_of(file.digest + length + payload) != digest:",
        "if False:",
        "tests/store/test_journal.py",
    ),
    one(
        "a number of a journal file is used twice",
        "store/journal.py",
        "number = self._newest.number + 1 if self._newest else 1",
        "number = self._newest.number if self._newest else 1",
        "tests/store/test_journal.py",
    ),
    one(
        "the newest journal file is deleted first",
        "store/journal.py",
        "for number in sorted(numbers):",
        "for number in sorted(numbers, reverse=True):",
        KILLS,
        "tests/store/test_journal.py",
    ),
    # -- flush to git
    Break(
        "refs move before their objects are stored",
        "store/writing.py",
        (
            ("            if objects:\n                self._write_pack(objects)\n", ""),
            (
                "            if remaining and not objects",
                "            if objects:\n                self._write_pack(objects)\n"
                "            if remaining and not objects",
            ),
        ),
        (LEAF,),
    ),
    Break(
        "the journal is deleted before the refs have moved",
        "store/writing.py",
        (
            (
                "            remaining, self.last_error = flushing.move_to_ends(overlay.chains,",
                "            chains = dict(overlay.chains)\n            state.replace_journal([])\n"
                "            remaining, self.last_error = flushing.move_to_ends(chains,",
            ),
            ("            self.set_aside += state.replace_journal(remaining)\n", ""),
        ),
        (STRANGER,),
    ),
    one(
        "packs have no .keep file",
        "git/pack_writer.py",
        '    keep(owner, directory / f"{name}.keep", sync=sync)\n',
        "",
        STRANGER,
        "tests/git/test_pack_writer.py",
    ),
    one(
        "the directory of packs is not synced",
        "git/pack_writer.py",
        "    if sync:\n        sync_directory(directory)\n    return name",
        "    return name",
        FSYNCS,
    ),
    one(
        "the directory of a ref is not synced",
        "git/ref_writer.py",
        "if self._sync and _sync_nearest(path.parent) != path.parent:",
        "if False:",
        FSYNCS,
    ),
    one(
        "a ref moves without a check of its value",
        "git/ref_writer.py",
        "if current in expected or current == new else False",
        "if True else False",
        "tests/git/test_ref_writer.py",
    ),
    one(
        "a ref is deleted while git packs refs",
        "git/ref_writer.py",
        "        for _ in range(_ATTEMPTS_MAX):\n",
        "        self._unlink(names)\n        for _ in range(_ATTEMPTS_MAX):\n",
        "tests/git/test_ref_writer.py",
    ),
    one(
        "a ref that git packs during its deletion stays",
        "git/ref_writer.py",
        "                if ref_files.packed_values(data).keys().isdisjoint(names):\n",
        "                if _ or ref_files.packed_values(data).keys().isdisjoint(names):\n",
        "tests/git/test_ref_writer.py",
    ),
    one(
        "the lock of another program is removed",
        "git/ref_writer.py",
        "if os.path.samestat(os.stat(lock), os.stat(self.proof(name))):",
        "if True:",
        "tests/git/test_ref_writer.py",
    ),
    one(
        "a directory that git removed is an error",
        "git/ref_writer.py",
        "        except (FileNotFoundError, NotADirectoryError):\n            directory = directory.parent",
        "        except NotADirectoryError:\n            directory = directory.parent",
        "tests/git/test_ref_writer.py",
    ),
    # -- concurrent readers and writers
    one(
        "a reader reads git's refs before the journal",
        "store/state.py",
        "            return staging.value(name)\n        self.tail()\n        return self.value(name)",
        "            return staging.value(name)\n        seen = self.git.refs.read(name)\n        self.tail()\n"
        "        chain = self.overlay.chains.get(name)\n        return chain[-1] if chain else seen",
        "tests/store/test_store_processes.py::test_flush_between_two_reads_of_a_reader_hides_nothing",
    ),
    one(
        "a missing object is not searched again",
        "store/state.py",
        "        except (MissingObject, Corrupt):\n            self.tail()\n",
        "        except (MissingObject, Corrupt):\n            pass\n",
        "tests/store/test_store_processes.py::test_an_object_of_another_process_is_found_by_its_name_alone",
    ),
    one(
        "packed-refs that were just written are cached",
        "git/ref_files.py",
        "seen if seen[0] < fresh else None",
        "seen",
        "tests/git/test_ref_writer.py",
    ),
    one(
        "a transaction reads a ref twice",
        "store/state.py",
        "if name not in self._seen:",
        "if True:",
        "tests/git/test_ref_writer.py",
    ),
    # -- locks
    one(
        "a writer does not wait for the lock",
        "store/lock.py",
        "wait_seconds) from None\n                pause =",
        "wait_seconds) from None\n                return\n                pause =",
        "tests/store/test_concurrent_creation.py::test_one_of_two_concurrent_processes_gets_a_name",
    ),
    one(
        "a forked child uses the files of its parent",
        "store/git_store.py",
        "if os.getpid() != self._writer.pid and not self._closed:",
        "if False:",
        "tests/store/test_store_processes.py::test_forked_child_and_its_parent_continue_as_two_processes",
    ),
    one(
        "a forked child may end its parent's transaction",
        "store/writing.py",
        "if staging is not self.state.staging or os.getpid() != self.pid:",
        "if staging is not self.state.staging:",
        "tests/store/test_store_processes.py::test_a_child_forked_within_a_transaction_cannot_end_it",
    ),
    one(
        "threads share a connection to the catalog",
        "api/opened.py",
        "key = (os.getpid(), threading.get_ident())",
        "key = (os.getpid(), 0)",
        "tests/store/test_concurrent_writers.py::test_threads_share_one_store_and_its_sessions",
    ),
    one(
        "the catalog is opened without waiting for a lock",
        "index/derived.py",
        'if "locked" not in str(error) or time.monotonic() > deadline:',
        "if True:",
        "tests/index/test_catalogue.py::test_opening_waits_while_another_process_creates_the_index",
    ),
    one(
        "an append with an outdated tip is not refused",
        "sessions/session.py",
        "if expected is None or expected.oid == seen:",
        "if True:",
        "tests/store/test_concurrent_writers.py::test_writer_with_an_outdated_tip_forks_or_fails",
    ),
    # -- untrusted bytes and text
    one(
        "a loose object is not hashed",
        "git/repository.py",
        "if len(data) != size or oid_of(kind, data) != oid:",
        "if len(data) != size:",
        "tests/git/test_damaged_files.py",
    ),
    one(
        "the size of an object is not limited",
        "git/pack_reader.py",
        "if size > self._bytes_max:",
        "if False:",
        "tests/git/test_pack_reader.py",
    ),
    one(
        "packed-refs are not checked",
        "git/ref_files.py",
        "good = [line for line in lines if is_packed_line(line)]",
        "good = lines",
        "tests/git/test_hostile_bytes.py",
    ),
    one(
        "an unfinished pack has a name that git deletes",
        "git/pack_writer.py",
        'TEMPORARY = "gitsession-tmp-"',
        'TEMPORARY = "tmp_gitsession_"',
        "tests/store/test_git_housekeeping.py::test_git_commands_of_the_user_beside_writers_lose_nothing",
    ),
    one(
        "a journal may contain a ref outside of the store",
        "store/journal.py",
        "            _check_move(name, old, new)\n",
        "",
        "tests/store/test_journal.py",
    ),
    one(
        "control characters are printed",
        "cli/text.py",
        "    safe = clean(text)\n",
        "    safe = text\n",
        "tests/cli/test_terminal.py",
    ),
    one(
        "bidirectional controls stay in headlines",
        "model/headline.py",
        "\\u2028-\\u202e",
        "\\u2028-\\u2029",
        "tests/cli/test_terminal.py",
    ),
    Break(
        "the proof of a lock is deleted before the lock",
        "git/ref_writer.py",
        (
            ("                    os.unlink(lock)\n", 20 * " " + "os.unlink(self.proof(name)); os.unlink(lock)\n"),
            (
                "            os.unlink(self.proof(name))\n\n    def forget",
                "            Path(self.proof(name)).unlink(missing_ok=True)\n\n    def forget",
            ),
        ),
        (KILLS, FAILING),
    ),
    one(
        "the names of proofs are not synced",
        "git/ref_writer.py",
        "            if self._sync and contents:\n                sync_directory(self._proofs)",
        "            if False:\n                sync_directory(self._proofs)",
        POWER,
    ),
    one(
        "the removal of a lock of packed-refs is not synced",
        "git/ref_writer.py",
        "else ():\n            sync_directory(directory)\n",
        "else ():\n            _ = directory if directory == str(self._git_dir) else sync_directory(directory)\n",
        POWER,
    ),
    one(
        "the data of a failed write stays",
        "store/writing.py",
        "        self._undo_failed_write()\n",
        "",
        FAILING,
    ),
    one(
        "a ref moves and its directory is not synced",
        "git/ref_writer.py",
        "        if self._sync and _sync_nearest(path.parent) != path.parent:",
        "        if False:",
        POWER,
        FSYNCS,
    ),
    one(
        "the journal's directory is not synced after deletions",
        "store/journal.py",
        "            os.close(file.fd)\n        if self._sync:\n            sync_directory(self._directory)",
        "            os.close(file.fd)",
        POWER,
        FSYNCS,
    ),
    one(
        "repair accepts objects without a check of their hash",
        "repair/repair.py",
        "found is not None and oid_of(*found) == oid",
        "found is not None",
        "tests/repair/test_repair.py",
    ),
    one(
        "other users can read a store",
        "store/create.py",
        "    path.chmod(0o700)",
        "    path.chmod(0o755)",
        "tests/store/test_hostile_store.py",
    ),
    one(
        "a damaged row of the index is used",
        "index/entry_rows.py",
        "row.proof() == proof",
        "row.proof() is not None",
        "tests/context/test_context.py::test_context_does_not_depend_on_a_damaged_index",
    ),
    one(
        "a damaged state of a history is used",
        "index/entry_rows.py",
        "found is None or found[1] != _state_proof(row.anchors, found[0])",
        "found is None",
        "tests/context/test_context.py::test_state_is_not_read_from_a_damaged_index",
    ),
    # -- restored files
    one(
        "a symbolic link on the way to a file is followed",
        "workspace/root.py",
        "os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC",
        "os.O_DIRECTORY | os.O_CLOEXEC",
        HOSTILE,
    ),
    one(
        "a folder is opened by its path",
        "workspace/root.py",
        "fd = os.open(name, _FOLDER, dir_fd=parent)",
        "fd = os.open(os.path.join(os.fsencode(self.path), names.unescape_path(at)), _FOLDER)",
        f"{HOSTILE}::test_no_file_outside_changes_while_folders_are_swapped_for_links",
    ),
    one(
        "a concurrent write is overwritten",
        "workspace/place_file.py",
        "    if inspect.status(folder, name) != seen:\n        raise ConcurrentWrite\n    os.rename",
        "    os.rename",
        RESTORE,
    ),
    one(
        "a file created concurrently is overwritten",
        "workspace/place_file.py",
        "    if seen is None:\n        # A rename",
        "    if False:\n        # A rename",
        RESTORE,
    ),
    one(
        "a file that was changed since is overwritten",
        "workspace/restore.py",
        "    if now in (change.new, change.expected):",
        "    if True:",
        RESTORE,
    ),
    one(
        "a file is written in place",
        "workspace/place_file.py",
        "        if _put(folder, name, self._temporary, self._seen, source=self._folder):",
        "        if self._seen is not None and self._seen.kind == 'file':\n"
        "            fd = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=folder)\n"
        "            with open(os.open(self._temporary, os.O_RDONLY, dir_fd=self._folder), 'rb') as file:\n"
        "                write_all(fd, file.read(), 0)\n"
        "            return os.close(fd)\n"
        "        if _put(folder, name, self._temporary, self._seen, source=self._folder):",
        RESTORE,
        HOSTILE,
    ),
    one(
        "a restored file is not synced",
        "workspace/place_file.py",
        "        os.fsync(self._fd)",
        "        pass",
        RESTORE,
    ),
    one(
        "the folders of restored files are not synced",
        "workspace/restore.py",
        "root.enter(folder) as fd:\n                    os.fsync(fd)",
        "root.enter(folder) as fd:\n                    pass",
        RESTORE,
    ),
    one(
        "a restored file keeps its setuid bit",
        "workspace/place_file.py",
        "old.permissions & 0o777",
        "old.permissions",
        RESTORE,
    ),
    one(
        "a symbolic link may leave the workspace",
        "workspace/path_rules.py",
        ' or b".." in steps[up:]',
        "",
        HOSTILE,
    ),
    one(
        "a rewind writes into a .git folder",
        "workspace/root.py",
        "                if _is_repository(fd):",
        "                if False:",
        HOSTILE,
    ),
    one(
        "a rewind writes into a store in the workspace",
        "workspace/root.py",
        "        if _identity(os.fstat(fd)) == self._store:",
        "        if False:",
        HOSTILE,
    ),
    one(
        "any empty folder is removed",
        "workspace/restore.py",
        "run.remove_folders(run.emptied & run.made)",
        "run.remove_folders(run.emptied)",
        RESTORE,
    ),
    one(
        "an escaped name that is not canonical is accepted",
        "workspace/names.py",
        "    if escape(name) != text:",
        "    if False:",
        "tests/workspace/test_file_names.py",
    ),
    one(
        "a short name of a git file is not recognized",
        "workspace/names.py",
        '("gi7eba", "gi7d29")',
        '("gi7eba",)',
        "tests/workspace/test_file_names.py",
    ),
    # -- attribution and rewind
    one(
        "a change by the user before a call belongs to the session",
        "checkpoints/attribution.py",
        "entry.phase not in (AFTER, REWIND)",
        "entry.phase not in (BEFORE, AFTER, REWIND)",
        "tests/checkpoints/test_attribution.py",
    ),
    one(
        "a file that was left out belongs to the session when it is captured",
        "checkpoints/attribution.py",
        "                and not _is_within(path, left_out)\n",
        "",
        "tests/checkpoints/test_attribution.py",
    ),
    one(
        "changes by others between the session's changes are reverted",
        "checkpoints/rewind_decisions.py",
        " and len(runs) == 1:",
        ":",
        "tests/checkpoints/test_rewind_decisions.py",
    ),
    one(
        "a change that another session claims is reverted",
        "checkpoints/rewind_decisions.py",
        "        is_shared = any(touch.now in states for touch in touches[path] if touch.is_by_session)\n",
        "        is_shared = False\n",
        "tests/checkpoints/test_rewind.py::test_changes_that_two_sessions_claim_at_once_are_kept",
    ),
    one(
        "a shared change is reverted beyond the other session's change",
        "checkpoints/rewind_decisions.py",
        "any(touch.now in states for touch in touches[path] if touch.is_by_session)",
        "current in states",
        "tests/checkpoints/test_two_agents.py::test_shared_change_is_not_undone_beyond_the_other_agent",
    ),
    one(
        "another session's change within an overwriting call is reverted",
        "checkpoints/planning.py",
        "        if touch.is_by_session and within and within[-1] != touch.was:\n",
        "        if False:\n",
        "tests/checkpoints/test_two_agents.py::test_others_change_within_an_overwriting_call_is_not_undone",
    ),
    one(
        "the state after a call counts as the state before it",
        "checkpoints/lookup.py",
        "        if point.entry.target != chain or point.entry.phase != BEFORE:",
        "        if point.entry.target != chain:",
        "tests/checkpoints/test_checkpoint_history.py",
    ),
    one(
        "an unfinished call claims changes after a later call has ended",
        "live/spooled_events.py",
        'later in ("", name)]',
        "True]",
        "tests/live/test_ingest.py",
    ),
    one(
        "an end event without a start event belongs to the session",
        "live/spooled_events.py",
        "(AFTER, event.call) if name in running else (BEFORE, event.call)",
        "(AFTER, event.call)",
        "tests/live/test_ingest.py",
    ),
    one(
        "a snapshot is ingested after a newer one",
        "live/ingesting.py",
        "newest is not None and newest.entry.at_ms >= event.at_ms",
        "False",
        "tests/live/test_ingest.py",
    ),
    one(
        "a damaged checkpoint prevents later ones",
        "checkpoints/history.py",
        "    except DAMAGE:\n        is_lost = True",
        "    except ZeroDivisionError:\n        is_lost = True",
        "tests/checkpoints/test_checkpoint_history.py",
    ),
    one(
        "a rewind writes files without an intent",
        "checkpoints/rewinding.py",
        "        intents.write(store, intent)\n"
        "        done = run.execute(intent)\n"
        "    return dataclasses.replace(done, outcomes=_merge_outcomes(plan.changes",
        "        done = run.execute(intent)\n"
        "    return dataclasses.replace(done, outcomes=_merge_outcomes(plan.changes",
        "tests/checkpoints/test_rewind.py::test_second_rewind_is_rejected_with_the_name_of_the_unfinished_one",
    ),
    one(
        "undo moves the checkpoint branch back",
        "checkpoints/history.py",
        "    move = tx.advance if isinstance(tx, RecordingTransaction) else tx.move\n",
        "    move = tx.move\n",
        "tests/checkpoints/test_rewind.py::test_undo_brings_back_the_very_state_before_and_redo_the_one_after",
    ),
]


def main() -> int:
    words = sys.argv[1:]
    wanted = [each for each in BREAKS if not words or any(word in each.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="gitsession-mutants-") as folder:
        copy = Path(folder) / "checkout"
        ignored = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "*cache*", "*.egg-info")
        shutil.copytree(CHECKOUT, copy, ignore=ignored)
        whole = {test: run(copy, (test,)) for test in sorted({test for each in wanted for test in each.tests})}
        results = [verdict(copy, each, whole) for each in wanted if not print(f"{each.name:60}", end="", flush=True)]
    caught = results.count("CAUGHT")
    print(f"{caught} of {len(wanted)} caught, {results.count('NOT CAUGHT')} not, {results.count('ERROR')} errors")
    return 0 if caught == len(wanted) else 1


def verdict(copy: Path, broken: Break, whole: dict[str, int]) -> str:
    said, why = _verdict(copy, broken, whole)
    print(f"{said:10} {why}", flush=True)
    return said


def _verdict(copy: Path, broken: Break, whole: dict[str, int]) -> tuple[str, str]:
    tests = tuple(test for test in broken.tests if whole[test] == 0)
    if not tests:
        return "ERROR", f"not one of its tests is there and passes without it: {', '.join(broken.tests)}"
    path = copy / "gitsession" / broken.file
    before = text = path.read_text()
    for old, new in broken.edits:
        if text.count(old) != 1:
            return "ERROR", f"{broken.file} holds {text.count(old)} times: {old.strip().splitlines()[0]}"
        text = text.replace(old, new)
    path.write_text(text)
    try:
        for _ in range(ROUNDS):
            code = run(copy, tests)
            if code == 1:
                return "CAUGHT", ", ".join(tests)
            if code:
                return "ERROR", f"pytest ended with {code}"
    finally:
        path.write_text(before)
    return "NOT CAUGHT", ", ".join(tests)


def run(copy: Path, tests: tuple[str, ...]) -> int:
    """Return the exit code of pytest: 0 if the tests passed, 1 if one failed. A test that hangs counts as failed."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", "timeout=60", *tests]
    with subprocess.Popen(
        command, cwd=copy, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as child:
        try:
            return child.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return 1


if __name__ == "__main__":
    sys.exit(main())
