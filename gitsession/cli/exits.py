"""Exit codes of commands (docs/reference/commands.md)."""

from __future__ import annotations

OK = 0
NOTHING = 1
USAGE = 2
NOT_FOUND = 3
REFUSED = 4
INTEGRITY = 5
SECRETS = 6
TRY_AGAIN = 75
INTERRUPTED = 130
TERMINATED = 143
