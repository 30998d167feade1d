"""The sessions of Claude Code."""
