"""What hides the secrets of a store, loaded with the first that is written or shown.

Who only reads what has none starts without the rules, and without SQLite.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from gitsession.git import config
from gitsession.store import create

if TYPE_CHECKING:
    from gitsession.redaction.guard import Guard
    from gitsession.redaction.vault import Vault


class SecretGuard:
    """Of the store at ``git_dir``: its own configuration says whether there is a guard, and its rules."""

    def __init__(self, git_dir: Path) -> None:
        self._git_dir = git_dir

    @functools.cached_property
    def guard(self) -> Guard | None:
        """See ``ObjectStore``. Off where the configuration has ``gitsession.redact = false``."""
        from gitsession.redaction.guard import Guard

        said = config.redaction(self._git_dir)
        return Guard.by(self.vault, said.rules) if said.is_on else None

    @functools.cached_property
    def vault(self) -> Vault:
        """See ``ObjectStore``: a file of the store's that only its owner can read."""
        from gitsession.redaction.vault import FILE, Vault

        return Vault(self._git_dir / create.CONTROL / FILE)
