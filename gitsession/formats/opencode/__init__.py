"""The session format of opencode."""
