"""Servers of sessions: bare repositories with hooks that validate pushes."""
