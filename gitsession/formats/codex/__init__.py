"""The sessions of codex."""
