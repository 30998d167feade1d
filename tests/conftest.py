"""Tests cannot reach home: every test gets an empty one, and a git without anybody's configuration."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest
from commands import here, run
from faults.bench import bench
from faults.shim import TMPFS
from goldens import golden
from hypothesis import HealthCheck, settings
from places import TESTS
from promises import Account, faults
from written import written

from gitsession.store import writing

__all__ = ["bench", "faults", "golden", "here", "run", "written"]

_ROOM_BYTES = 6 << 30
_NOT_ON_A_BUSY_MACHINE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
settings.register_profile("gitsession", deadline=None, suppress_health_check=_NOT_ON_A_BUSY_MACHINE)
settings.load_profile("gitsession")

# Wherever a machine stands, and whatever terminal somebody runs the tests in.
for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)
os.environ["TZ"] = "UTC"
time.tzset()

# Half of a whole run was waiting for a disk. Power cuts and full disks have file systems of their own.
if os.access(TMPFS, os.W_OK) and shutil.disk_usage(TMPFS).free > _ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(TMPFS))

# Where a machine stands still, nothing is handed over but what a test asked for.
writing.FLUSH_SECONDS = writing.FLUSH_LATEST_SECONDS = 600.0


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and everything beside it that a program may look for, empty."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "GITSESSION_")):
            monkeypatch.delenv(name)
    home = Path(tempfile.mkdtemp(prefix="home-", dir=tmp_path_factory.getbasetemp()))
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
    # A file of its own: `git config --global` on os.devnull renames its lock over the device, if it may.
    (home / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(name): a promise that this test tries to break")
    config.addinivalue_line("markers", "real: runs the released program of an agent, where it is installed")
    config.pluginmanager.register(Account())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job: our programs would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of real agents; a test that hangs fails, where the plugin that can tell is installed."""
    for item in items:
        if item.path.is_relative_to(TESTS / "real"):
            item.add_marker(pytest.mark.real)
    if config.pluginmanager.hasplugin("timeout"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
