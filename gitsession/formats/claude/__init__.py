"""The session format of Claude Code."""
