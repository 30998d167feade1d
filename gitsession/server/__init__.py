"""Servers of sessions, which are bare repositories with hooks."""
