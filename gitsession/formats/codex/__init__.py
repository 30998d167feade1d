"""The session format of codex."""
