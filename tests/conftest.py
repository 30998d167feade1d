"""Isolation of the tests: every test gets an empty home directory and an empty git configuration."""

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
# CI judges each change by the same examples; other runs generate new ones.
settings.register_profile(
    "gitsession", deadline=None, derandomize="CI" in os.environ, suppress_health_check=_NOT_ON_A_BUSY_MACHINE
)
settings.load_profile("gitsession")

# Independent of the machine and the terminal in which the tests run.
for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
    os.environ.pop(name, None)
os.environ["TZ"] = "UTC"
time.tzset()

# Half of a test run was spent waiting for the disk. Power cuts and full disks use file systems of their own.
if os.access(TMPFS, os.W_OK) and shutil.disk_usage(TMPFS).free > _ROOM_BYTES:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(TMPFS))

# On a slow machine, nothing is flushed to git unless a test requests it.
writing.FLUSH_SECONDS = writing.FLUSH_LATEST_SECONDS = 600.0


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set HOME and every variable that a program may read instead to an empty folder."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "GITSESSION_")):
            monkeypatch.delenv(name)
    home = Path(tempfile.mkdtemp(prefix="home-", dir=tmp_path_factory.getbasetemp()))
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "DATA", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
    # A separate file: with os.devnull, `git config --global` renames its lock file over the device if permissions allow
    # it.
    (home / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    return home


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(name): a promise that this test tries to break")
    config.addinivalue_line("markers", "real: runs the released program of an agent, where it is installed")
    config.pluginmanager.register(Account())
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job; programs would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of real agents, and set a time limit for each test if the timeout plugin is installed."""
    for item in items:
        if item.path.is_relative_to(TESTS / "real"):
            item.add_marker(pytest.mark.real)
    if config.pluginmanager.hasplugin("timeout"):
        for item in items:
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))
